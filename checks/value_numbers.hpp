// Value numbering: finds executed instructions that certainly compute the same result.
#pragma once

#include <bitset>
#include <cstdint>

#include "isa/program/op_spec.hpp"

namespace nkisim::checks {

/// Numbers for what instructions compute, taken in program order. Equal numbers: the same
/// operation on operands of the same values. Registers count as equal from iteration to iteration
/// of a loop unless they follow from the loop's own or from themselves.
class ValueNumbers {
 public:
  /// A loop begins; its body is gone through once more; it is over. Loops within it are not
  /// reported.
  void enter(const isa::Inst& loop);
  void again() { again_ = true; }
  void leave();
  /// Follows the registers that an instruction sets.
  void step(const isa::Inst& inst);
  /// Number of what an instruction computes from operands whose numbers have the sum `sources`.
  [[nodiscard]] std::uint64_t number(const isa::Inst& inst, std::uint64_t sources) const;

 private:
  [[nodiscard]] bool varies(const isa::TensorRef& ref) const;
  [[nodiscard]] bool varies(const isa::Arg& arg) const;

  std::bitset<256> varying_;  // registers that differ from iteration to iteration
  bool within_ = false, again_ = false;
};

/// True if two instructions are equal in sources, destinations and constants.
[[nodiscard]] bool same_words(const isa::Inst& a, const isa::Inst& b);

}  // namespace nkisim::checks
