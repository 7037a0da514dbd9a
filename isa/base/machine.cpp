#include "isa/base/machine.hpp"

#include <array>

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

std::optional<Machine> find_machine(std::string_view target) {
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
