// Compares a program's outputs before and after a compiler pass, by numbers of their expressions.
#include "compiler/analysis/pass_check.hpp"

namespace nkisim::compiler {
namespace {

bool is_output(const isa::Tensor& t) {
  return t.space == isa::Space::kHbm &&
         (t.role == isa::TensorRole::kOutput || t.role == isa::TensorRole::kInputOutput);
}

}  // namespace

PassCheck::PassCheck(const isa::Program& program) : program_(program) {
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    if (is_output(program.tensor(id))) outputs_.push_back(id);
  }
  std::optional<std::string> why;
  written_ = number(why);
  undecided_ = why.value_or("");
}

PassCheck::Numbers PassCheck::number(std::optional<std::string>& why) const {
  isa::Memory memory(program_);
  Expressions expressions(program_, memory, Sums::kInOrder);
  expressions.constants_are_inputs();
  expressions.undefined_is_one_value();
  why = expressions.run();
  Numbers numbers;
  for (const std::uint32_t id : outputs_) numbers.push_back(expressions.of(id));
  return numbers;
}

void PassCheck::after(std::string_view pass) const {
  if (!undecided_.empty()) return;
  std::optional<std::string> why;
  const Numbers now = number(why);
  const std::string name(pass);
  if (why) {
    isa::fail(isa::Rule::internal_error,
              "internal error: pass " + name +
                  " makes a program whose outputs cannot be compared: " + *why);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    for (std::size_t e = 0; e < now[i].size(); ++e) {
      if (now[i][e] == written_[i][e]) continue;
      isa::fail(isa::Rule::internal_error, "internal error: pass " + name + " computes element " +
                                               std::to_string(e) + " of output " +
                                               program_.tensor(outputs_[i]).name +
                                               " by another expression of the inputs");
    }
  }
}

}  // namespace nkisim::compiler
