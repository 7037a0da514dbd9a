// Lists the NeuronCore generations (trn1, trn2, ...) with their sizes, and finds one by name.

#include "isa/base/machine.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace nkisim::isa {
namespace {

constexpr std::int64_t kKiB = 1024, kGiB = kKiB * kKiB * kKiB;
constexpr std::array<std::string_view, 6> kEngineNames = {"tensor", "vector", "scalar",
                                                          "gpsimd", "sync",   "any"};

// SBUF sizes: hardware.md section 1 (24, 28 and 32 MiB per core). Cores, chips and HBM: AWS's pages
// trainium, trainium2, trainium3 and inf2-arch.
constexpr std::array<Machine, 4> kMachines = {{
    {.generation = Generation::kV2,
     .target = "trn1",
     .sbuf_partition_bytes = 192 * kKiB,
     .cores_per_chip = 2,
     .hbm_chip_bytes = 32 * kGiB},
    {.generation = Generation::kV2,
     .target = "inf2",
     .sbuf_partition_bytes = 192 * kKiB,
     .cores_per_chip = 2,
     .hbm_chip_bytes = 32 * kGiB,
     .chips_per_instance = 12},
    {.generation = Generation::kV3,
     .target = "trn2",
     .sbuf_partition_bytes = 224 * kKiB,
     .hbm_chip_bytes = 96 * kGiB},
    {.generation = Generation::kV4,
     .target = "trn3",
     .sbuf_partition_bytes = 256 * kKiB,
     .matmul_moving_max = 4096,
     .matmul_moving_max_bf16 = 8192,
     .hbm_chip_bytes = 144 * kGiB},
}};

}  // namespace

std::string_view name(Engine engine) { return kEngineNames.at(static_cast<std::size_t>(engine)); }

std::optional<Engine> parse_engine(std::string_view text) {
  for (std::size_t i = 0; i < kEngineNames.size(); ++i) {
    if (kEngineNames[i] == text) return static_cast<Engine>(i);
  }
  return std::nullopt;
}

const std::vector<TargetName>& target_names() {
  static const std::vector<TargetName> kNames = {
#define NKISIM_TARGET_NAME(name, target, source) {name, target, source},
#include "isa/base/targets.def"
#undef NKISIM_TARGET_NAME
  };
  return kNames;
}

std::string_view find_target(std::string_view name) {
  const std::string_view family = name.substr(0, name.find('.'));
  if (family.size() < name.size() && name.size() - family.size() == 1) return {};
  for (const TargetName& known : target_names()) {
    if (known.name == family) return known.target;
  }
  return {};
}

const std::string& known_targets() {
  static const std::string kKnown = [] {
    std::vector<std::string_view> targets;
    for (const TargetName& known : target_names()) {
      if (known.name == known.target) targets.push_back(known.name);
    }
    std::string list;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      list.append(i == 0 ? "" : i + 1 == targets.size() ? " or " : ", ").append(targets[i]);
    }
    return list;
  }();
  return kKnown;
}

std::vector<MachineSize> sizes(const Machine& machine) {
  return {
#define NKISIM_SIZE(key) {#key, static_cast<std::int64_t>(machine.key)},
#include "isa/base/machine.def"
#undef NKISIM_SIZE
  };
}

bool set_size(Machine& machine, std::string_view key, std::int64_t value) {
#define NKISIM_SIZE(name)                                      \
  if (key == #name) {                                          \
    machine.name = static_cast<decltype(machine.name)>(value); \
    return true;                                               \
  }
#include "isa/base/machine.def"
#undef NKISIM_SIZE
  return false;
}

std::vector<MachineSize> changed_sizes(const Machine& machine) {
  const std::vector<MachineSize> own = sizes(*find_machine(machine.target));
  std::vector<MachineSize> changed = sizes(machine);
  std::erase_if(changed, [&, i = std::size_t{0}](const MachineSize& size) mutable {
    return own[i++].value == size.value;
  });
  return changed;
}

std::string changed_note(const Machine& machine, std::string_view key) {
  for (const MachineSize& size : changed_sizes(machine)) {
    if (size.key != key) continue;
    std::string text = " (" + std::string(key) + " of the config; ";
    for (const MachineSize& own : sizes(*find_machine(machine.target))) {
      if (own.key == key) text.append(machine.target).append(" has " + std::to_string(own.value));
    }
    return text + ")";
  }
  return "";
}

// FNV-1a of "trn2 sbuf_partition_bytes=229376 ...".
std::string machine_hash(const Machine& machine) {
  std::string text(machine.target);
  for (const MachineSize& size : sizes(machine)) {
    text.append(" ").append(size.key).append("=" + std::to_string(size.value));
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

std::optional<Machine> find_machine(std::string_view name) {
  const std::string_view target = find_target(name);
  for (const Machine& m : kMachines) {
    if (m.target == target) return m;
  }
  return std::nullopt;
}

std::string_view first_target(Generation generation) {
  for (const Machine& m : kMachines) {
    if (m.generation == generation) return m.target;
  }
  return "unknown";
}

}  // namespace nkisim::isa
