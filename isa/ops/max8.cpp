// max8: the eight largest values of each partition.
#include <cmath>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::max8 {
namespace {

enum { kDst, kSrc };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .free_dims = 2},
    {.name = "src", .kind = ParamKind::kIn, .spaces = kOnChip, .free_dims = 4},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  check_same_rows("src", src, "dst", dst);
  if (src.columns() < 8 || src.columns() > 16384) {
    fail(Rule::operand_size, "src", describe(src), "8 to 16384 elements per partition");
  }
  if (dst.columns() != 8)
    fail(Rule::operand_size, "dst", describe(dst), "8 elements per partition");
}

bool larger(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

/// The eight largest of x in `best`, descending; equals (0 and -0, NaNs) in order of position.
void keep_largest(const float* x, std::int64_t n, float* best) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t at = i < 8 ? i : 8;
    if (at == 8 && !larger(x[i], best[--at])) continue;
    for (; at > 0 && larger(x[i], best[at - 1]); --at) best[at] = best[at - 1];
    best[at] = x[i];
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto x = ctx.load(inst.tensor(kSrc));
  const auto out = ctx.make<float>(x.rows, 8);
  for (std::int64_t r = 0; r < x.rows; ++r) keep_largest(x.row(r), x.columns, out.row(r));
  ctx.store(inst.tensor(kDst), out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "max8",
    .doc = "The eight largest values of each partition.",
    .semantics =
        "dst[p,0..7] = the 8 largest of src[p,:] in FP32, descending, duplicates repeated; NaN "
        "counts as larger than any number, equals keep their order (assumed)",
    .cost = "N",
    .sources = "nki.isa.max8; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kMAX8,
    .check = check,
    .eval = eval,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::max8
