// Proves that a compiler pass keeps the values of a program's outputs.
//
// Before the first pass, and after each, the expression that every element of every output is
// computed from gets a number (expressions.hpp). A pass that computes an output from other inputs,
// by other operations or in another order changes a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/expressions.hpp"

namespace nkisim::compiler {

class PassCheck {
 public:
  /// Numbers the outputs of `program`, which is as it was written.
  explicit PassCheck(const isa::Program& program);
  /// Throws isa::Error (Rule::internal_error) if an output is another expression than before
  /// the first pass.
  void after(std::string_view pass) const;
  /// The reason why nothing can be compared (Expressions::run); empty if all outputs are.
  [[nodiscard]] const std::string& undecided() const { return undecided_; }

 private:
  using Numbers = std::vector<std::vector<Expression>>;  // by output
  [[nodiscard]] Numbers number(std::optional<std::string>& why) const;

  const isa::Program& program_;
  std::vector<std::uint32_t> outputs_;
  Numbers written_;
  std::string undecided_;
};

}  // namespace nkisim::compiler
