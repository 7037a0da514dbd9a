// Implements tensor_copy and the forms of it that take a dynamic address in neuronxcc.nki.
#include "isa/ops/shared/copy.hpp"

#include <algorithm>

namespace nkisim::isa {

bool is_indirect(const TensorRef& ref) {
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == DynamicOffset::Kind::kIndirect) return true;
  }
  return false;
}

void check_copy(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kCopyDst), &src = inst.tensor(kCopySrc);
  check_same_shape("src", src, "dst", dst);
  if (dst.dtype != src.dtype && (is_packed(dst.dtype) || is_packed(src.dtype))) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + " (packed types are not cast),");
  }
  if (inst.engine == Engine::kGpSimd && (is_indirect(dst) || is_indirect(src))) {
    fail(Rule::engine_operand, "engine", "gpsimd with an indirect view", "vector or scalar");
  }
}

void eval_copy(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kCopyDst), &src = inst.tensor(kCopySrc);
  if (dst.dtype == src.dtype) {
    ctx.copy_raw(dst, src);
  } else {
    ctx.map_rows({&src}, dst, [](std::int64_t, const float* const* in, float* out, std::size_t n) {
      if (in[0] != out) std::copy_n(in[0], n, out);
    });
  }
}

void expand_copy(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.opcode =
      inst.tensor(kCopyDst).dtype == inst.tensor(kCopySrc).dtype ? Opcode::kCOPY : Opcode::kCAST;
  out.parts.push_back(part);
}

void check_dynamic(std::string_view operand, const TensorRef& ref) {
  using Kind = DynamicOffset::Kind;
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == Kind::kRegister || d->kind == Kind::kScalar) return;
  }
  fail(Rule::run_time_address, operand, "at a fixed address", "a dynamic offset");
}

}  // namespace nkisim::isa
