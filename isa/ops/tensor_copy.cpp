#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {

enum { kDst, kSrc };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .indirect = true},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .indirect = true},
}};

bool is_indirect(const TensorRef& ref) {
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == DynamicOffset::Kind::kIndirect) return true;
  }
  return false;
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  check_same_shape("src", src, "dst", dst);
  if (dst.dtype != src.dtype && (is_packed(dst.dtype) || is_packed(src.dtype))) {
    fail("dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + " (packed types are not cast),");
  }
  if (inst.engine == Engine::kGpSimd && (is_indirect(dst) || is_indirect(src))) {
    fail("engine", "gpsimd with an indirect view", "vector or scalar");
  }
}

void eval(const Inst& inst, EvalContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  if (dst.dtype == src.dtype) {
    ctx.store_raw(dst, ctx.load_raw(src));
  } else {
    ctx.store(dst, ctx.load(src));
  }
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  if (inst.tensor(kDst).dtype != inst.tensor(kSrc).dtype) part.opcode = Opcode::kCAST;
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec spec_tensor_copy;
const OpSpec spec_tensor_copy = {
    .name = "tensor_copy",
    .doc = "Copies a tile on chip, casting if the dtypes differ.",
    .semantics = "dst[p,i] = src[p,i]: the same bits if the dtypes match, else through FP32",
    .cost =
        "max(64, N) cycles of the engine; trn2 VectorE: N/4 with SBUF, 16-bit and contiguous "
        "operands, N/2 with one of these missing; trn3 ScalarE: up to twice as fast for 16-bit",
    .sources =
        "nki.isa.tensor_copy; 2.26 cost notes; trainium2_arch; profiler opcodes COPY and CAST "
        "(default engine vector: assumed)",
    .engines = kCopyEngines,
    .params = kParams,
    .opcode = Opcode::kCOPY,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
};

}  // namespace nkisim::isa
