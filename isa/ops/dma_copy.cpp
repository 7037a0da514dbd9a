// dma_copy: copies between HBM and SBUF with the DMA engines, casting, gathering or scattering.
#include "isa/ops/shared/dma.hpp"

namespace nkisim::isa::ops::dma_copy {
namespace {

enum { kDst, kSrc, kPriority, kOobMode, kDgeMode };

constexpr std::array<Param, 5> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kHbmOrSbuf,
     .dtypes = kMovedDtypes,
     .doc = "in HBM it may be scattered to through a vector_offset",
     .gather = true},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kHbmOrSbuf,
     .dtypes = kMovedDtypes,
     .doc = "in HBM it may be gathered from through a vector_offset",
     .gather = true},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
    {.name = "oob_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kOobModes,
     .doc = "error (absent), or skip what an out-of-range dynamic index addresses"},
    {.name = "dge_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kDgeModes,
     .doc = "who makes the descriptors; unknown (absent) lets the compiler choose"},
}};

DmaRequest request_of(const Inst& inst) {
  return dma_request({&inst.tensor(kDst), &inst.tensor(kSrc)},
                     inst.choice(kDgeMode, DgeMode::kUnknown));
}

Engine pick_engine(const Inst& inst, const Machine& machine) {
  return inst.is_tensor(kDst) && inst.is_tensor(kSrc) ? pick_dma_engine(request_of(inst), machine)
                                                      : Engine::kSync;
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  if (dst.elements() != src.elements()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         std::to_string(src.elements()) + " elements, as src has,");
  }
  if (src.dtype != dst.dtype && (is_packed(src.dtype) || is_packed(dst.dtype))) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + " (MX types cannot be cast),");
  }
  const bool wide = src.dtype == Dtype::kInt64 || dst.dtype == Dtype::kInt64;
  if (wide && !(kScalars.contains(src.dtype) && kScalars.contains(dst.dtype))) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "int32 or int64 of and into int64, src being " + std::string(name(src.dtype)) + ",");
  }
  check_dge(request_of(inst), inst.engine, machine);
  check_priority(inst, kPriority, machine);
}

void eval(const Inst& inst, OpContext& ctx) {
  dma_move(inst.tensor(kDst), inst.tensor(kSrc), inst.integer(kOobMode) == 1, ctx);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_dma(inst, inst.tensor(kSrc), inst.tensor(kDst),
             resolve_dge(request_of(inst), inst.engine, machine), out);
  out.dma.priority = static_cast<std::uint8_t>(inst.integer(kPriority));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "dma_copy",
    .doc = "Copies between HBM and SBUF with the DMA engines, casting, gathering or scattering.",
    .semantics =
        "dst.flat[i] = cast(src.flat[i]): bytes where the dtypes agree, int32 and int64 exactly "
        "and saturating, else through FP32; "
        "gather: dst[r,:] = src[index[r],:]; scatter: dst[index[r],:] = src[r,:], in row order",
    .cost =
        "trigger on the engine, then descriptors over up to 16 DMA engines (config: dma); hwdge "
        "about 600 ns per instruction",
    .sources =
        "nki.isa.dma_copy; nki dge guide; nki dma overview and bandwidth guide. Assumed: the mode "
        "and engine chosen for dge_mode unknown, row order of scatters to equal indices",
    .engines = kDmaTriggers,
    .params = kParams,
    .opcode = Opcode::kDMA_DIRECT2D,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .moves = OpSpec::Moves::kCopies,
    .dma = true,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::dma_copy
