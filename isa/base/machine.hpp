// Architectural limits of each NeuronCore generation: sizes and counts, never rates.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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
inline constexpr int kRegistersPerEngine = 64;

/// What a generation can hold and address. Sources: docs/trace-format.md, configs/README.md.
struct Machine {
  Generation generation = Generation::kV3;
  std::string_view target = "trn2";       // trn1, inf2, trn2, trn3
  std::int64_t sbuf_partition_bytes = 0;  // 192, 224 or 256 KiB
  std::int64_t psum_partition_bytes = 16384;
  int psum_banks = 8;                // of 2 KiB per partition
  int matmul_moving_max = 512;       // FP32 destination; v4: 4096
  int matmul_moving_max_bf16 = 512;  // BF16 destination; v4: 8192
  int cores_per_chip = 8;            // physical
  std::int64_t hbm_chip_bytes = 0;   // 32, 96 or 144 GiB
  int chips_per_instance = 16;       // of the largest instance type
  [[nodiscard]] std::int64_t psum_bank_bytes() const { return psum_partition_bytes / psum_banks; }
};

/// Limits of "trn1", "inf2", "trn2" or "trn3"; empty for any other name.
[[nodiscard]] std::optional<Machine> find_machine(std::string_view target);
/// The first target that has `generation`, as users call it: "trn1", "trn2", "trn3".
[[nodiscard]] std::string_view first_target(Generation generation);

}  // namespace nkisim::isa
