// Declares the sizes of each NeuronCore generation, such as bytes of SBUF. Rates are in configs/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim::isa {

/// NeuronCore generations, ordered: later generations compare greater.
enum class Generation : std::uint8_t { kV2, kV3, kV4 };

/// The instruction queues of a NeuronCore. kAny lets the op's default decide.
enum class Engine : std::uint8_t { kTensor, kVector, kScalar, kGpSimd, kSync, kAny };
inline constexpr int kEngineCount = 5;
[[nodiscard]] std::string_view name(Engine engine);  // "tensor", "vector", ...
[[nodiscard]] std::optional<Engine> parse_engine(std::string_view text);

inline constexpr int kPartitions = 128;
inline constexpr int kQuadrant = 32;

/// Sizes and addresses of a core and its chip. find_machine returns those of a target; a config
/// may change the sizes of machine.def. Sources: configs/*.json.
struct Machine {
  Generation generation = Generation::kV3;
  std::string_view target = "trn2";       // trn1, inf2, trn2, trn3
  std::int64_t sbuf_partition_bytes = 0;  // 192, 224 or 256 KiB
  std::int64_t psum_partition_bytes = 16384;
  int psum_banks = 8;                         // of 2 KiB per partition
  int pe_rows = 128;                          // of the PE array
  int pe_columns = 128;                       // of the PE array
  int matmul_moving_max = 512;                // FP32 destination; v4: 4096
  int matmul_moving_max_bf16 = 512;           // BF16 destination; v4: 8192
  int engine_mask = (1 << kEngineCount) - 1;  // bit i: the core has Engine i
  int cores_per_chip = 8;                     // physical
  std::int64_t hbm_chip_bytes = 0;            // 32, 96 or 144 GiB
  int chips_per_instance = 16;                // of the largest instance type
  [[nodiscard]] bool has(Engine engine) const {
    return engine == Engine::kAny || (engine_mask >> static_cast<int>(engine) & 1) != 0;
  }
  [[nodiscard]] std::int64_t psum_bank_bytes() const { return psum_partition_bytes / psum_banks; }
};

/// The physical cores that a rank's logical core may have at most: two from trn2 on.
[[nodiscard]] inline int cores_of_rank(const Machine& machine) {
  return machine.generation == Generation::kV2 ? 1 : 2;
}

/// One size of a machine: the key that a config has for it, and its value.
struct MachineSize {
  std::string_view key;
  std::int64_t value = 0;
};
/// The sizes of machine.def, in its order.
[[nodiscard]] std::vector<MachineSize> sizes(const Machine& machine);
/// Gives the size with that key another value; false if there is no such key.
bool set_size(Machine& machine, std::string_view key, std::int64_t value);
/// The sizes that differ from the target's.
[[nodiscard]] std::vector<MachineSize> changed_sizes(const Machine& machine);
/// For messages: " (KEY of the config; TARGET has N)" if a config changed that size, else "".
[[nodiscard]] std::string changed_note(const Machine& machine, std::string_view key);
/// Hash of the target and all sizes, the same on every host: 16 hexadecimal digits.
[[nodiscard]] std::string machine_hash(const Machine& machine);

/// A name that a target may be called by: itself, an instance family or a generation (targets.def).
struct TargetName {
  std::string_view name;
  std::string_view target;
  std::string_view source;
};
[[nodiscard]] const std::vector<TargetName>& target_names();
/// "trn1", "inf2", "trn2" or "trn3" for any name of targets.def; empty for others.
[[nodiscard]] std::string_view find_target(std::string_view name);
/// "trn1, inf2, trn2 or trn3": the targets themselves.
[[nodiscard]] const std::string& known_targets();

/// Limits of a target by any of its names; empty for any other name.
[[nodiscard]] std::optional<Machine> find_machine(std::string_view name);
/// The first target that has `generation`, as users call it: "trn1", "trn2", "trn3".
[[nodiscard]] std::string_view first_target(Generation generation);

}  // namespace nkisim::isa
