// Declares how one instruction computes expression numbers (expressions.hpp), which prove that two
// programs compute the same: the numbers of its operands, and the function that combines them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "compiler/analysis/expressions.hpp"
#include "isa/base/alu.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::compiler {

/// Thrown at an instruction that the expressions do not cover.
struct Undecided {
  std::string why;
};

/// Two independent mixing functions of 64 bits.
struct Mixer {
  std::uint64_t first, second;

  static std::uint64_t scramble(std::uint64_t x) {  // splitmix64
    x ^= x >> 30U;
    x *= 0xBF58476D1CE4E5B9U;
    x ^= x >> 27U;
    x *= 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }
  void add(std::uint64_t word) {
    first = scramble(first ^ word) + 0x9E3779B97F4A7C15U;
    second = scramble(second + word) ^ 0xD6E8FEB86659FD93U;
  }
};

/// The start of all mixing, drawn once for the process.
[[nodiscard]] const Mixer& mixing_key();

enum class ExpressionTag : std::uint64_t {
  kInput = 1,
  kConstant,
  kCast,
  kBits,
  kSum,
  kTerm,
  kAdd,
  kProduct,
  kAlu,
  kAct,
  kOp,
};

/// True if `to` holds every value of `from`.
[[nodiscard]] bool holds_values(isa::Dtype to, isa::Dtype from);

// One instruction: its operands' numbers and those of its results.
struct Expressions::Work {
  Expressions& all;
  const isa::Inst& inst;
  isa::EvalContext& ctx;

  [[nodiscard]] static Value atom(Mixer m, isa::Dtype exact = isa::Dtype::kFloat32) {
    return {m.first, m.second, isa::Dtype::kFloat32, exact, Form::kAtom, false};
  }
  [[nodiscard]] static Mixer begin(ExpressionTag tag) {
    Mixer m = mixing_key();
    m.add(static_cast<std::uint64_t>(tag));
    return m;
  }
  static void add(Mixer& m, const Value& v) {
    m.add(v.first);
    m.add(v.second);
  }
  // A sum as one number.
  [[nodiscard]] static Value closed(const Value& v) {
    if (v.form != Form::kSum) return v;
    Mixer m = begin(ExpressionTag::kSum);
    add(m, v);
    m.add(v.with_zero ? 1 : 0);
    return atom(m, v.exact);
  }
  [[nodiscard]] static Value constant(double value) {
    Mixer m = begin(ExpressionTag::kConstant);
    m.add(std::bit_cast<std::uint64_t>(value));
    return atom(m);
  }
  [[nodiscard]] static bool is(const Value& v, double value) {
    const Value c = constant(value);
    return v.form == Form::kAtom && v.first == c.first && v.second == c.second;
  }
  // Adds up to sums; a term is an atom mixed once more.
  [[nodiscard]] static Value term(const Value& v) {
    if (v.form == Form::kSum) return v;
    Mixer m = begin(ExpressionTag::kTerm);
    add(m, v);
    return {m.first, m.second, isa::Dtype::kFloat32, isa::Dtype::kFloat32, Form::kSum, false};
  }
  [[nodiscard]] Value sum(const Value& a, const Value& b) const {
    if (all.sums_ == Sums::kInOrder) return pair(ExpressionTag::kAdd, 0, a, b, true);
    if (is(a, 0) && is(b, 0)) return a;
    Value x = term(a);
    const Value y = term(b);
    const bool zero = is(a, 0) || is(b, 0);
    if (is(a, 0)) x = y;
    if (!zero) {
      x.first += y.first;
      x.second += y.second;
    }
    x.with_zero = zero || x.with_zero || y.with_zero;
    return x;
  }
  [[nodiscard]] static Value pair(ExpressionTag tag, std::uint64_t which, Value a, Value b,
                                  bool commutes) {
    a = closed(a);
    b = closed(b);
    if (commutes && std::pair(b.first, b.second) < std::pair(a.first, a.second)) std::swap(a, b);
    Mixer m = begin(tag);
    m.add(which);
    add(m, a);
    add(m, b);
    return atom(m);
  }
  // op(a, b) of the FP32 operators.
  [[nodiscard]] Value alu(isa::AluOp op, const Value& a, const Value& b) const {
    if (op == isa::AluOp::kAdd) return sum(a, b);
    if (op == isa::AluOp::kMultiply) {
      if (is(a, 1)) return b;
      if (is(b, 1)) return a;
      return pair(ExpressionTag::kAlu, static_cast<std::uint64_t>(op), a, b, true);
    }
    if (isa::traits(op).operands == 1) {
      return pair(ExpressionTag::kAlu, static_cast<std::uint64_t>(op), a, constant(0), false);
    }
    return pair(ExpressionTag::kAlu, static_cast<std::uint64_t>(op), a, b, false);
  }
  [[nodiscard]] static Value cast(Value v, isa::Dtype to) {
    if (v.form != Form::kNone && !holds_values(to, v.exact)) {
      v = closed(v);
      Mixer m = begin(ExpressionTag::kCast);
      m.add(static_cast<std::uint64_t>(to));
      add(m, v);
      v = atom(m, to);
    }
    v.dtype = to;
    return v;
  }

  [[noreturn]] void give_up(const std::string& why) const {
    std::string place = all.program_.kernel_place(inst);
    if (place.empty()) place = "line " + std::to_string(inst.loc.trace_line);
    throw Undecided{std::string(isa::spec(inst).name) + " (" + place + ") " + why};
  }

  void number();
  void compute(const isa::TensorRef& dst);
  void check() const;
  void copy(const isa::TensorRef& dst, const isa::TensorRef& src);
  void transpose(const isa::TensorRef& dst, const isa::TensorRef& src);
  void multiply();
  void operators();
  void activate();
  void reduce();
  void generic();
  [[nodiscard]] bool floats() const;
  [[nodiscard]] Mixer described() const;
  void store(const isa::TensorRef& dst, Values values);
  [[nodiscard]] Operand scalar(const isa::Arg& arg, std::int64_t rows) const;
  void fill(const isa::TensorRef& dst);
  void products(const Operand& a, const Operand& b, Values& out) const;
};

}  // namespace nkisim::compiler
