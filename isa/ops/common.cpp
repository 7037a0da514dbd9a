#include "isa/ops/common.hpp"

namespace nkisim::isa {

bool is_bitvec(AluOp op) { return traits(op).kind == AluKind::kBitvec; }

bool has_exact_integer(AluOp op) {
  return op == AluOp::kAdd || op == AluOp::kSubtract || op == AluOp::kMultiply;
}

void check_binary_alu(std::string_view param, AluOp op, Engine engine,
                      std::initializer_list<const TensorRef*> operands) {
  const std::string op_name(name(op));
  if (traits(op).operands != 2) fail(param, op_name, "a binary operator");
  if (op == AluOp::kPower && engine != Engine::kGpSimd)
    fail("engine", std::string(name(engine)), "gpsimd for power");
  if (!is_bitvec(op)) return;
  if (engine != Engine::kVector) fail("engine", std::string(name(engine)), "vector for " + op_name);
  for (const TensorRef* ref : operands) {
    if (!is_integer(ref->dtype)) {
      fail(param, op_name + " on " + std::string(name(ref->dtype)), "an integer dtype");
    }
  }
}

}  // namespace nkisim::isa
