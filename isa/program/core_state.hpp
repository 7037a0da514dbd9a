// Declares CoreState, which a simulated core keeps between instructions apart from its memories:
// registers and random number generators.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "isa/base/inst.hpp"
#include "isa/base/xorwow.hpp"
#include "isa/program/world.hpp"

namespace nkisim::isa {

/// The state of a core between instructions apart from SBUF and PSUM.
struct CoreState {
  std::vector<std::int64_t> registers;  // sequencer registers, grown on demand; of 32 bits but for
                                        // what scalar_load and scalar_alu put there
  std::vector<bool> registers_set;      // which of them the program has set
  bool checks_registers = false;        // use of one never set is an error (isa/program/walker.cpp)
  int rank = 0;                         // of its rank in the world
  World world = {};
  std::array<float, kPartitions> vector_accumulator{};  // VectorE reduce registers
  std::array<float, kPartitions> scalar_accumulator{};  // ScalarE reduce registers
  std::array<std::uint32_t, kPartitions> vector_lfsr{};
  std::array<std::array<Xorwow, 4>, kPartitions> vector_xorwow{};
  std::array<Xorwow, kPartitions> gpsimd_xorwow{};
  bool vector_seeded = false, gpsimd_seeded = false;
  std::vector<Xorwow>
      rounding;  // per engine and lane; empty: nearest even (isa/machine/rounding.hpp)
  // True if an instruction has begun with any of the engine's reduce registers.
  bool vector_begun = false, scalar_begun = false;
  // Lanes of the reduce registers that hold an undefined value, and where the last one came from.
  std::bitset<kPartitions> vector_undefined, scalar_undefined;
  std::uint32_t undefined_origin = 0;
  [[nodiscard]] std::int64_t reg(std::int64_t id) const;
  void set_reg(std::int64_t id, std::int64_t value);
  [[nodiscard]] bool is_set(std::int64_t id) const;
  /// Register `id` holds whatever it held: the program may not use it before it sets it.
  void unset_reg(std::int64_t id);
};

/// Throws Error if `inst` uses a register that the program has not set.
void check_registers(const Inst& inst, const CoreState& state);
/// Throws Error if an operand of `inst` whose address is in registers lies outside its tensor,
/// unless the instruction skips what does. The program has values for all registers.
void check_offsets(const Inst& inst, const Program& program, const CoreState& state);
/// Notes that `inst` begins with its engine's reduce registers; throws Error if it goes on in those
/// that no instruction has begun. By engine, not by partition: which lane holds what is not
/// documented where operands lie on several partitions.
void check_reducing(const Inst& inst, CoreState& state);

}  // namespace nkisim::isa
