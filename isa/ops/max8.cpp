#include <algorithm>
#include <cmath>

#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {

enum { kDst, kSrc };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "src", .kind = ParamKind::kIn, .spaces = kOnChip},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  check_same_rows("src", src, "dst", dst);
  if (src.columns() < 8 || src.columns() > 16384) {
    fail("src", describe(src), "8 to 16384 elements per partition");
  }
  if (dst.columns() != 8) fail("dst", describe(dst), "8 elements per partition");
}

void eval(const Inst& inst, EvalContext& ctx) {
  const auto x = ctx.load(inst.tensor(kSrc));
  const auto out = ctx.make<float>(x.rows, 8);
  const auto larger = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
  for (std::int64_t r = 0; r < x.rows; ++r) {
    std::partial_sort_copy(x.row(r), x.row(r) + x.columns, out.row(r), out.row(r) + 8, larger);
  }
  ctx.store(inst.tensor(kDst), out);
}

}  // namespace

extern const OpSpec spec_max8;
const OpSpec spec_max8 = {
    .name = "max8",
    .doc = "The eight largest values of each partition.",
    .semantics =
        "dst[p,0..7] = the 8 largest of src[p,:] in FP32, descending, duplicates repeated; NaN "
        "counts as larger than any number (assumed)",
    .cost = "N",
    .sources = "nki.isa.max8; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kMAX8,
    .check = check,
    .eval = eval,
};

}  // namespace nkisim::isa
