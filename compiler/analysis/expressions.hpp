// Gives every element of a program a number for the expression it is computed from. Two programs
// whose outputs have equal numbers compute the same.
//
// The program is executed in program order. Each element of memory has the number of the
// expression that made it: an input's element, a constant, or an operation with the numbers of its
// operands. Numbers are of 128 bits, made by mixing (not by running), so that equal expressions
// have equal numbers, and others have with a probability of about 2^-100 (the mixing has a random
// key). What does not change a value is no part of an expression: where a tile lies, how often it
// was copied or transposed, which engine computed it, a cast that keeps every value.
//
// Sums are numbered by their terms, in whatever order and grouping they were added in FP32, and
// products of the tensor engine are such sums. Zeros drop out of them, but for one bit: x + 0 is
// never -0, as x may be. With Sums::kInOrder the
// order of every addition counts as well, and a product is the list of its operands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/machine/memory.hpp"
#include "isa/program/uses.hpp"
#include "isa/world/interpreter.hpp"

namespace nkisim::compiler {

enum class Sums : std::uint8_t { kAnyOrder, kInOrder };

/// The number of one element. Two are equal if the expressions are.
struct Expression {
  std::uint64_t first = 0, second = 0;
  bool operator==(const Expression&) const = default;
};

class Expressions {
 public:
  /// Prepares `program`, whose inputs and constants are in `memory`.
  Expressions(const isa::Program& program, isa::Memory& memory, Sums sums);
  /// Says that the elements of input `tensor` are those of the `number`-th input, as in the other
  /// program; without a call inputs are numbered in their order.
  void name_input(std::uint32_t tensor, int number);
  /// Takes constants for further inputs, so that their values, in memory or not, do not matter.
  void constants_are_inputs() { names_constants_ = true; }
  /// Takes what nothing wrote for one value. Else each read of it is like nothing else.
  void undefined_is_one_value() { undefined_alike_ = true; }
  /// Keeps the numbers of everything that run() computes, for first_missing_in(): up to a
  /// gigabyte of them.
  void collect() { collects_ = true; }
  /// After both have run: the first instruction that computes something that `others` never does;
  /// null if there is none, or not all that they compute was kept.
  [[nodiscard]] const isa::Inst* first_missing_in(const Expressions& others) const;

  /// Executes the program. Empty, or why its expressions are unknown, with the instruction's
  /// place: run-time addresses, registers from memory, random numbers, several cores or ranks.
  std::optional<std::string> run();
  /// The expressions of an HBM tensor's elements, row-major.
  [[nodiscard]] std::vector<Expression> of(std::uint32_t tensor);

 private:
  enum class Form : std::uint8_t { kNone, kAtom, kSum, kRest };
  // An expression, or the sum of the numbers of its terms; `exact`: a dtype that holds its value.
  struct Value {
    std::uint64_t first = 0, second = 0;
    isa::Dtype dtype{}, exact{};
    Form form = Form::kNone;
    bool with_zero = false;  // of a sum: +0 was added, so that it is never -0
  };
  using Values = std::vector<Value>;
  struct Operand {
    const isa::TensorRef* ref = nullptr;
    std::int64_t rows = 0, columns = 0;
    Values values;
    [[nodiscard]] const Value& at(std::int64_t r, std::int64_t c) const {
      return values[static_cast<std::size_t>(r * columns + c)];
    }
  };
  struct Work;  // one instruction

  void before(const isa::Inst& inst, isa::EvalContext& ctx);
  void after(const isa::Inst& inst);
  Value* shadow(const isa::Region& region);
  Operand read(const isa::TensorRef& ref, isa::EvalContext& ctx);
  void write(const isa::TensorRef& ref, const Values& values, isa::EvalContext& ctx);
  static Value constant(isa::Dtype dtype, const std::byte* data);
  static Values constants(const isa::TensorRef& ref, isa::EvalContext& ctx);
  void begin(const isa::Tensor& t, const isa::Region& region, std::optional<int> number);
  void note(const isa::Inst& inst, const Values& values);
  void forget_tiles(const isa::Inst& inst);

  const isa::Program& program_;
  isa::Memory& memory_;
  Sums sums_;
  std::int64_t unit_ = 4;  // bytes of a cell: the smallest element of the program
  std::unordered_map<const isa::Region*, std::unique_ptr<Value, void (*)(void*)>> shadows_;
  std::unordered_map<std::uint32_t, int> inputs_;
  // Where each tile has cells of its own, eight times its bytes: they go with its last use.
  std::optional<isa::Uses> uses_;
  std::vector<const isa::TensorRef*> fills_;  // that the running instruction fills
  isa::EvalContext* ctx_ = nullptr;
  std::uint64_t never_written_ = 0;
  bool collects_ = false, all_collected_ = true, names_constants_ = false, undefined_alike_ = false;
  std::vector<std::uint64_t> computed_;                         // in the order of the run
  std::vector<std::pair<const isa::Inst*, std::size_t>> ends_;  // where an instruction's end there
};

}  // namespace nkisim::compiler
