// bn_stats: count, mean and squared deviations of the even and odd elements.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::bn_stats {
namespace {

enum { kDst, kData };
constexpr std::int64_t kMaxElements = 512;  // nl.tile_size.bn_stats_fmax
constexpr std::int64_t kResults = 6;

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_same_rows("data", data, "dst", dst);
  if (data.columns() > kMaxElements) {
    fail(Rule::operand_size, "data", describe(data), "at most 512 elements per partition");
  }
  if (dst.columns() != kResults)
    fail(Rule::operand_size, "dst", describe(dst), "6 elements per partition");
}

// count, mean and sum of squared deviations of every second element. Summed in double and rounded
// once: the order of the hardware's FP32 sums is not documented.
void statistics(const float* x, std::int64_t n, std::int64_t first, float* out) {
  double sum = 0, squares = 0;
  std::int64_t count = 0;
  for (std::int64_t i = first; i < n; i += 2, ++count) sum += static_cast<double>(x[i]);
  const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
  for (std::int64_t i = first; i < n; i += 2) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  out[0] = static_cast<float>(count);
  out[1] = static_cast<float>(mean);
  out[2] = static_cast<float>(squares);
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto x = ctx.load(inst.tensor(kData));
  const auto out = ctx.make<float>(x.rows, kResults);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    statistics(x.row(r), x.columns, 0, out.row(r));
    statistics(x.row(r), x.columns, 1, out.row(r) + kResults / 2);
  }
  ctx.store(inst.tensor(kDst), out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "bn_stats",
    .doc = "Count, mean and squared deviations of the even and odd elements.",
    .semantics =
        "dst[p] = (count, mean, variance*count) of data[p,0::2], then of data[p,1::2]; 0, 0, 0 for "
        "no elements",
    .cost = "max(64, N)",
    .sources = "nki.isa.bn_stats; 2.26 cost notes (order of the sums assumed)",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kBN_STATS,
    .check = check,
    .eval = eval,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::bn_stats
