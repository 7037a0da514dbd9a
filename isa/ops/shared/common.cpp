// Implements checks of operands and steps of computation that most instructions share.
#include "isa/ops/shared/common.hpp"

#include <algorithm>
#include <cstring>

namespace nkisim::isa {

bool is_bitvec(AluOp op) { return traits(op).kind == AluKind::kBitvec; }

bool has_exact_integer(AluOp op) {
  return op == AluOp::kAdd || op == AluOp::kSubtract || op == AluOp::kMultiply;
}

void check_alu_engine(std::string_view param, AluOp op, Engine engine, const Machine& machine) {
  const std::string op_name(name(op));
  const std::string engine_name(name(engine));
  if (op == AluOp::kAverage)
    fail(Rule::operator_not_taken, param, op_name,
         "another operator (tensor_partition_reduce has it)");
  if (is_bitvec(op) && engine != Engine::kVector) {
    fail(Rule::operator_engine, "engine", engine_name, "vector for " + op_name);
  }
  if (op == AluOp::kRsqrt && engine == Engine::kVector) {
    fail(Rule::operator_engine, "engine", engine_name, "gpsimd or scalar for rsqrt");
  }
  constexpr Set<AluOp> kSinceV4 = {AluOp::kAbsMax, AluOp::kAbsMin, AluOp::kSquare, AluOp::kRelu};
  if (kSinceV4.contains(op) && machine.generation < Generation::kV4) {
    fail(Rule::operator_generation, param, op_name + " on " + std::string(machine.target),
         "trn3 for this operator");
  }
  if ((op == AluOp::kAbsMax || op == AluOp::kAbsMin) && engine != Engine::kVector) {
    fail(Rule::operator_engine, "engine", engine_name, "vector for " + op_name);
  }
}

void check_arithmetic(std::string_view param, AluOp op, Engine engine, const Machine& machine) {
  if (is_bitvec(op) || traits(op).operands != 2) {
    fail(Rule::operator_not_taken, param, std::string(name(op)),
         "an arithmetic operator with two operands");
  }
  check_alu_engine(param, op, engine, machine);
}

void check_scalar_operand(std::string_view operand, const Arg& arg, std::int64_t rows) {
  check_column(operand, arg, rows);
  if (arg.kind == Arg::Kind::kTensor) {
    check_dtype(operand, *arg.tensor, {Dtype::kFloat32}, "float32 (or a constant)");
  }
}

void check_bit_operand(std::string_view operand, const TensorRef& ref, AluOp op) {
  check_dtype(operand, ref, kIntegers, "an integer dtype for " + std::string(name(op)));
}

bool is_absent_or_zero(const Arg& arg) {
  if (!arg.present()) return true;
  if (arg.kind == Arg::Kind::kReal) return arg.real == 0.0;
  return arg.kind == Arg::Kind::kInt && arg.integer == 0;
}

void check_stage_operand(std::string_view op_param, AluOp op, std::string_view operand_param,
                         const Arg& operand) {
  const std::string op_name(name(op));
  if (traits(op).operands == 1) {
    if (is_absent_or_zero(operand)) return;
    fail(Rule::argument_left_over, operand_param, "given with the unary operator " + op_name,
         "none or 0");
  }
  if (operand.present()) return;
  fail(Rule::argument_missing, operand_param, "missing",
       "a constant or a tile for " + std::string(op_param) + "=" + op_name);
}

Stage::Stage(OpContext& ctx, AluOp op, const Arg& operand, bool reverse, std::int64_t rows)
    : op_(op), reverse_(reverse), operand_(ctx.column(operand, rows)) {}

void Stage::apply_to(std::int64_t r, const float* in, float* out, std::size_t n) const {
  if (traits(op_).operands == 1) return apply_unary(op_, in, out, n);
  apply_scalar(op_, in, operand_.data[r], reverse_, out, n);
}

void apply_stage(OpContext& ctx, AluOp op, const Arg& operand, bool reverse, const Tile<float>& x) {
  const Stage stage(ctx, op, operand, reverse, x.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    stage.apply_to(r, x.row(r), x.row(r), static_cast<std::size_t>(x.columns));
  }
}

void fill_elements(std::byte* out, const std::byte* element, std::int64_t size,
                   std::int64_t count) {
  // Doubling what is there already: long copies whatever the size of an element.
  const std::int64_t total = size * count;
  if (total == 0) return;
  std::memcpy(out, element, static_cast<std::size_t>(size));
  for (std::int64_t done = size; done < total;) {
    const std::int64_t more = std::min({done, total - done, std::int64_t{4096}});
    std::memcpy(out + done, out, static_cast<std::size_t>(more));
    done += more;
  }
}

namespace {

// A fixed size makes each copy a load and a store.
template <std::size_t Piece>
void gather_fixed(const std::byte* in, std::int64_t unit, const std::uint32_t* index,
                  std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i, out += Piece) {
    std::memcpy(out, in + unit * std::int64_t{index[i]}, Piece);
  }
}

}  // namespace

void gather_pieces(const std::byte* in, std::int64_t unit, const std::uint32_t* index,
                   std::int64_t count, std::int64_t piece, std::byte* out) {
  if (piece == 1) return gather_fixed<1>(in, unit, index, count, out);
  if (piece == 2) return gather_fixed<2>(in, unit, index, count, out);
  if (piece == 4) return gather_fixed<4>(in, unit, index, count, out);
  if (piece == 8) return gather_fixed<8>(in, unit, index, count, out);
  if (piece == 16) return gather_fixed<16>(in, unit, index, count, out);
  for (std::int64_t i = 0; i < count; ++i, out += piece) {
    std::memcpy(out, in + unit * std::int64_t{index[i]}, static_cast<std::size_t>(piece));
  }
}

void extend_zeros(Dtype dtype, const Tile<std::uint32_t>& x) {
  const int bits = 8 * size_bytes(dtype);
  if (bits >= 32) return;
  const std::uint32_t mask = (1U << bits) - 1U;
  for (std::int64_t i = 0; i < x.size(); ++i) x.data[i] &= mask;
}

void extend_sign(Dtype dtype, const Tile<std::uint32_t>& x) {
  const int up = 32 - 8 * size_bytes(dtype);
  if (up <= 0) return;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    x.data[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(x.data[i] << up) >> up);
  }
}

void extend_for(AluOp op, Dtype dtype, const Tile<std::uint32_t>& x) {
  if (op == AluOp::kRightShift) extend_zeros(dtype, x);
}

Tile<float> transposed(OpContext& ctx, const Tile<float>& in) {
  constexpr std::int64_t kBlock = 16;
  const Tile<float> out = ctx.make<float>(in.columns, in.rows);
  for (std::int64_t r0 = 0; r0 < in.rows; r0 += kBlock) {
    for (std::int64_t c0 = 0; c0 < in.columns; c0 += kBlock) {
      const std::int64_t r1 = std::min(r0 + kBlock, in.rows);
      const std::int64_t c1 = std::min(c0 + kBlock, in.columns);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) out.data[c * in.rows + r] = in.row(r)[c];
      }
    }
  }
  return out;
}

void expand_as_dst(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.dtype = inst.tensor(0).dtype;
  out.parts.push_back(part);
}

void expand_over_dst(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef& ref = inst.tensor(0);
  Part part = default_part(inst, machine);
  if (ref.space == Space::kSbuf) part.sbuf_read_bytes -= ref.bytes();
  if (ref.space == Space::kPsum) part.psum_read_bytes -= ref.bytes();
  out.parts.push_back(part);
}

}  // namespace nkisim::isa
