// quantize_mx: quantises 16-bit floats to MXFP8: values and one scale per 8 partitions x 4 columns.
#include <algorithm>
#include <cmath>

#include "isa/ops/shared/mx.hpp"

namespace nkisim::isa::ops::quantize_mx {
namespace {

enum { kDst, kSrc, kDstScale };

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kFloat8E5m2X4, Dtype::kFloat8E4m3fnX4},
     .doc = "[P, N/4], four values per element"},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kFloat16, Dtype::kBfloat16},
     .doc = "[P, N]: P a multiple of 32, N a multiple of 4"},
    {.name = "dst_scale",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = kScaleDtypes,
     .doc = "four rows per quadrant; may start 0, 4, 8 or 12 partitions into one",
     .mx_scale = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &src = inst.tensor(kSrc), &dst = inst.tensor(kDst);
  if (src.rows() % kQuadrant != 0) {
    fail(Rule::partition_count, "src", describe(src), "a multiple of 32 partitions");
  }
  if (src.columns() % 4 != 0)
    fail(Rule::operand_size, "src", describe(src), "a multiple of 4 columns");
  if (dst.rows() != src.rows() || dst.columns() * 4 != src.columns()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "[" + std::to_string(src.rows()) + " x " + std::to_string(src.columns() / 4) + "]");
  }
  check_scale("dst_scale", inst.tensor(kDstScale), src.rows(), dst.columns());
}

// Exponent of the largest magnitude in the 8 x 4 group at (row, column); far below any scale for a
// group of zeros. Infinity and NaN count as 2^128 (assumed).
int group_exponent(const Tile<float>& x, std::int64_t row, std::int64_t column) {
  constexpr int kNone = -1000;
  int top = kNone;
  for (std::int64_t r = row; r < row + 8; ++r) {
    for (std::int64_t c = column; c < column + 4; ++c) {
      const float v = x.row(r)[c];
      if (v == 0.0F) continue;
      top = std::max(top, std::isfinite(v) ? std::ilogb(v) : 128);
    }
  }
  return top;
}

// The range of a destination: with the scale of SDK 2.31 no value of a group is too large.
struct Range {
  int exponent;  // of the largest magnitude, once it is scaled
  float largest;
};

Range range_of(Dtype dtype, const Program& program) {
  constexpr int kDoubledSince = 31;
  const Range range = dtype == Dtype::kFloat8E5m2X4 ? Range{15, 57344.0F} : Range{8, 448.0F};
  return {range.exponent - (program.sdk() >= kDoubledSince ? 1 : 0), range.largest};
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &scale = inst.tensor(kDstScale);
  const Tile<float> x = ctx.load(inst.tensor(kSrc));
  const Range range = range_of(dst.dtype, ctx.program());
  for (std::int64_t quadrant = 0; quadrant < x.rows / kQuadrant; ++quadrant) {
    TensorRef rows = scale_quadrant(scale, quadrant);
    const Tile<std::byte> bytes = ctx.make<std::byte>(kScaleRows, scale.columns());
    std::fill_n(bytes.data, bytes.size(), std::byte{0});
    for (std::int64_t g = 0; g < kScaleRows; ++g) {
      const std::int64_t row = quadrant * kQuadrant + g * 8;
      for (std::int64_t c = 0; c < x.columns; c += 4) {
        const int exponent = std::clamp(group_exponent(x, row, c) - range.exponent, -127, 127);
        bytes.row(g)[c / 4] = static_cast<std::byte>(exponent + 127);
        for (std::int64_t r = row; r < row + 8; ++r) {
          for (std::int64_t i = c; i < c + 4; ++i) {
            float& v = x.row(r)[i];
            const float scaled = std::ldexp(v, -exponent);
            v = std::isfinite(v) ? std::clamp(scaled, -range.largest, range.largest) : scaled;
          }
        }
      }
    }
    ctx.store_raw(rows, bytes);
  }
  ctx.store(dst, x);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.features |= kFeatMx;
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "quantize_mx",
    .doc = "Quantises 16-bit floats to MXFP8: values and one scale per 8 partitions x 4 columns.",
    .semantics =
        "a = largest magnitude of the group; X = 2^(floor(log2 a) - (Emax - 1)), Emax 8 (e4m3fn) "
        "or 15 (e5m2), 2^-127 for zeros; dst = fp8(src / X); scale byte = log2 X + 127, at row "
        "(p // 32) * 32 + (p % 32) // 8, column f // 4. Before SDK 2.31 Emax in place of Emax - 1; "
        "dst saturates",
    .cost = "VectorE: 4 values per partition and cycle",
    .sources =
        "nki.isa.quantize_mx; release notes of NKI 0.5.0 (the scale, and that values were clamped "
        "before); trainium3_arch; mxfp-matmul guide (scale layout). Assumed: scales "
        "clamp to 2^-127..2^127, infinity and NaN count as 2^128",
    .engines = kVectorOnly,
    .params = kParams,
    .since = Generation::kV4,
    .opcode = Opcode::kQUANTIZE_MX,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
};

}  // namespace nkisim::isa::ops::quantize_mx
