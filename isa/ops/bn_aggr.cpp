// bn_aggr: mean and variance from the results of bn_stats.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::bn_aggr {
namespace {

enum { kDst, kData };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .free_dims = 2},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .free_dims = 4},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_same_rows("data", data, "dst", dst);
  if (data.columns() % 3 != 0) {
    fail(Rule::operand_size, "data", describe(data), "a multiple of 3 elements per partition");
  }
  if (dst.columns() != 2)
    fail(Rule::operand_size, "dst", describe(dst), "2 elements per partition");
}

// Merges (count, mean, squared deviations) triples, in double, rounded once.
void merge(const float* x, std::int64_t n, float* out) {
  double count = 0, sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; i += 3) {
    const double c = static_cast<double>(x[i]);
    count += c;
    sum += c * static_cast<double>(x[i + 1]);
  }
  const double mean = sum / count;
  for (std::int64_t i = 0; i < n; i += 3) {
    const double d = static_cast<double>(x[i + 1]) - mean;
    squares += static_cast<double>(x[i + 2]) + static_cast<double>(x[i]) * d * d;
  }
  out[0] = static_cast<float>(mean);
  out[1] = static_cast<float>(squares / count);
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto x = ctx.load(inst.tensor(kData));
  const auto out = ctx.make<float>(x.rows, 2);
  for (std::int64_t r = 0; r < x.rows; ++r) merge(x.row(r), x.columns, out.row(r));
  ctx.store(inst.tensor(kDst), out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "bn_aggr",
    .doc = "Mean and variance from the results of bn_stats.",
    .semantics =
        "for triples (c, m, s): mean = sum(c*m)/C, variance = sum(s + c*(m-mean)^2)/C with "
        "C = sum(c); dst[p] = (mean, variance)",
    .cost = "max(64, 13*N/3)",
    .sources = "nki.isa.bn_aggr; 2.26 cost notes (order of the sums assumed)",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kBN_AGGR,
    .check = check,
    .eval = eval,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::bn_aggr
