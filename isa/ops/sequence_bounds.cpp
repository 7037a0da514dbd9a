// sequence_bounds: where the segment of each element begins and ends.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::sequence_bounds {
namespace {

enum { kDst, kSegmentIds };
constexpr Dtypes kDtypes = {Dtype::kFloat32, Dtype::kInt32};

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = kDtypes,
     .doc = "[1,2,n]: starts, then ends"},
    {.name = "segment_ids",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kDtypes,
     .doc = "[1,n], 0 is padding"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &ids = inst.tensor(kSegmentIds);
  if (ids.rows() != 1) fail(Rule::partition_count, "segment_ids", describe(ids), "1 partition");
  if (dst.rows() != 1 || dst.columns() != 2 * ids.columns()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "1 partition of 2 x " + std::to_string(ids.columns()) + " elements");
  }
  if (dst.dtype != ids.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "segment_ids' dtype, " + std::string(name(ids.dtype)) + ",");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto ids = ctx.load(inst.tensor(kSegmentIds));
  const std::int64_t n = ids.columns;
  const auto out = ctx.make<float>(2, n);
  float *start = out.row(0), *end = out.row(1);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool same = i > 0 && ids.data[i] == ids.data[i - 1];
    start[i] = ids.data[i] == 0.0F ? static_cast<float>(n)
               : same              ? start[i - 1]
                                   : static_cast<float>(i);
  }
  for (std::int64_t i = n; i-- > 0;) {
    const bool same = i + 1 < n && ids.data[i] == ids.data[i + 1];
    end[i] = ids.data[i] == 0.0F ? -1.0F : same ? end[i + 1] : static_cast<float>(i + 1);
  }
  ctx.store(inst.tensor(kDst), {out.data, 1, 2 * n});
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "sequence_bounds",
    .doc = "Where the segment of each element begins and ends.",
    .semantics =
        "dst[0,0,i] = first index of the run of equal ids around i, dst[0,1,i] = its last index + "
        "1; n and -1 where the id is 0",
    .cost = "not documented",
    .sources = "nki.isa.sequence_bounds and its NumPy equivalent",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kSEQUENCE_BOUNDS,
    .check = check,
    .eval = eval,
    .undefined = OpSpec::Undefined::kRows,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::sequence_bounds
