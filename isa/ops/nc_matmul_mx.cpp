// nc_matmul_mx: matrix product of microscaled operands, dequantised on the way into the array.
#include "isa/machine/gemm.hpp"
#include "isa/ops/shared/mx.hpp"
#include "isa/ops/shared/tensor_engine.hpp"

namespace nkisim::isa::ops::nc_matmul_mx {
namespace {

enum {
  kDst,
  kStationary,
  kMoving,
  kStationaryScale,
  kMovingScale,
  kTilePosition,
  kTileSize,
  kAccumulate
};

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kPsumOnly,
     .dtypes = {Dtype::kFloat32, Dtype::kBfloat16},
     .doc = "[M, N]",
     .indirect = true},
    {.name = "stationary",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kPackedDtypes,
     .doc = "[K, M], four values per element: K a multiple of 32, M even, both at most 128",
     .indirect = true},
    {.name = "moving",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kPackedDtypes,
     .doc = "[K, N]: N at most 4096, or 8192 into bfloat16",
     .indirect = true},
    {.name = "stationary_scale",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kScaleDtypes,
     .doc = "four rows per quadrant; may start 0, 4, 8 or 12 partitions into one",
     .indirect = true,
     .mx_scale = true},
    {.name = "moving_scale",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kScaleDtypes,
     .doc = "four rows per quadrant; may start 0, 4, 8 or 12 partitions into one",
     .indirect = true,
     .mx_scale = true},
    {.name = "tile_position",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "(start_row, 0) on the array"},
    {.name = "tile_size",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "(row_size, 128): 32, 64 or 128 rows"},
    {.name = "accumulate",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true adds to dst, false or absent overwrites it"},
}};

void check_sizes(const Inst& inst, const Machine& machine, const ArrayTile& tile) {
  const TensorRef &dst = inst.tensor(kDst), &st = inst.tensor(kStationary),
                  &mv = inst.tensor(kMoving);
  check_same_rows("stationary", st, "moving", mv);
  if (st.rows() % kQuadrant != 0) {
    fail(Rule::partition_count, "stationary", describe(st), "a multiple of 32 partitions (K)");
  }
  if (st.rows() > tile.rows) {
    fail(Rule::partition_count, "stationary", describe(st),
         "at most " + std::to_string(tile.rows) + " partitions (K)");
  }
  if (st.columns() > kArrayColumns || st.columns() % 2 != 0) {
    fail(Rule::operand_size, "stationary", describe(st),
         "an even number of columns (M), at most 128");
  }
  const int limit =
      dst.dtype == Dtype::kFloat32 ? machine.matmul_moving_max : machine.matmul_moving_max_bf16;
  if (mv.columns() > limit) {
    fail(Rule::operand_size, "moving", describe(mv),
         "at most " + std::to_string(limit) + " columns (N)");
  }
  if (dst.rows() != st.columns() || dst.columns() != mv.columns()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "[" + std::to_string(st.columns()) + " x " + std::to_string(mv.columns()) + "]");
  }
}

const DynamicOffset* view_of(const Inst& inst, int param) {
  return find_dynamic(inst.tensor(param), DynamicOffset::Kind::kIndirect);
}

bool same_index(const DynamicOffset* a, const DynamicOffset* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->index->tensor == b->index->tensor && a->index->offset == b->index->offset &&
         a->index->partition == b->index->partition && a->index->pattern == b->index->pattern;
}

void check_views(const Inst& inst, const ArrayTile& tile) {
  if (!same_index(view_of(inst, kStationary), view_of(inst, kStationaryScale))) {
    fail(Rule::indirect_index,
         "stationary and stationary_scale use different indirection; the same index is required");
  }
  if (!same_index(view_of(inst, kMoving), view_of(inst, kMovingScale))) {
    fail(Rule::indirect_index,
         "moving and moving_scale use different indirection; the same index is required");
  }
  const bool any = view_of(inst, kDst) != nullptr || view_of(inst, kStationary) != nullptr ||
                   view_of(inst, kMoving) != nullptr;
  if (any) check_indirect_product(inst.tensor(kDst), inst.tensor(kStationary), tile);
}

void check(const Inst& inst, const Machine& machine) {
  const ArrayTile tile = array_tile(inst, kTilePosition, kTileSize, machine);
  if (tile.columns != kArrayColumns) {
    fail(Rule::tile_position, "tile_size", "with " + std::to_string(tile.columns) + " columns",
         "(row_size, 128): MX products have row tiling only");
  }
  check_sizes(inst, machine, tile);
  const TensorRef &st = inst.tensor(kStationary), &mv = inst.tensor(kMoving);
  check_scale("stationary_scale", inst.tensor(kStationaryScale), st.rows(), st.columns());
  check_scale("moving_scale", inst.tensor(kMovingScale), mv.rows(), mv.columns());
  check_views(inst, tile);
}

// The operand's values as a [4K, columns] matrix: value q of an element is row 4k + q.
Tile<float> dequantize(const TensorRef& data, const TensorRef& scale, OpContext& ctx) {
  const Tile<float> packed = ctx.load(data);
  const std::int64_t columns = data.columns();
  const Tile<float> out = ctx.make<float>(data.rows() * 4, columns);
  const Tile<float> factors = ctx.make<float>(kScaleRows, scale.columns());
  for (std::int64_t quadrant = 0; quadrant < data.rows() / kQuadrant; ++quadrant) {
    const TensorRef rows = scale_quadrant(scale, quadrant);
    decode(Dtype::kFloat8E8m0fnu, ctx.load_raw(rows).data, static_cast<std::size_t>(factors.size()),
           factors.data);
    for (std::int64_t r = 0; r < kQuadrant; ++r) {
      const std::int64_t k = quadrant * kQuadrant + r;
      const float *in = packed.row(k), *factor = factors.row(r / 8);
      for (std::int64_t q = 0; q < 4; ++q) {
        float* to = out.row(4 * k + q);
        for (std::int64_t c = 0; c < columns; ++c) to[c] = in[4 * c + q] * factor[c];
      }
    }
  }
  return out;
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const Tile<float> st = dequantize(inst.tensor(kStationary), inst.tensor(kStationaryScale), ctx);
  const Tile<float> mv = dequantize(inst.tensor(kMoving), inst.tensor(kMovingScale), ctx);
  const bool accumulate = inst.flag(kAccumulate);
  const Tile<float> sum = accumulate ? ctx.load(dst) : ctx.make<float>(dst.rows(), dst.columns());
  matmul(fp32_rows(st.data, st.columns), fp32_rows(mv.data, mv.columns), sum.data, sum.columns,
         static_cast<int>(st.rows), static_cast<int>(st.columns), static_cast<int>(mv.columns),
         accumulate, Products::kExact);
  ctx.store(dst, sum);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef &st = inst.tensor(kStationary), &mv = inst.tensor(kMoving);
  Pass pass{.stationary = &st,
            .moving = &mv,
            .dst = &inst.tensor(kDst),
            .load_operands = 1U << kStationary | 1U << kStationaryScale,
            .multiply_operands = 1U << kMoving | 1U << kMovingScale | 1U << kDst,
            .rows = st.rows(),
            .columns = st.columns(),
            .elements = mv.columns(),
            .flops = 2 * 4 * st.rows() * st.columns() * mv.columns(),
            .features = kFeatMx,
            .tile = array_tile(inst, kTilePosition, kTileSize, machine),
            .multiply = Opcode::kMATMUL_MX,
            .accumulate = inst.flag(kAccumulate)};
  add_pass(pass, machine, out);
  out.parts[0].sbuf_read_bytes += inst.tensor(kStationaryScale).bytes();
  out.parts[1].sbuf_read_bytes += inst.tensor(kMovingScale).bytes();
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_matmul_mx",
    .doc = "Matrix product of microscaled operands, dequantised on the way into the array.",
    .semantics =
        "dst[m,n] = (accumulate ? dst[m,n] : 0) + sum over k, q of stationary[k,m,q] * "
        "2^(ss[k,m]-127) * moving[k,n,q] * 2^(ms[k,n]-127) in FP32, k then q in order (assumed)",
    .cost =
        "LDWEIGHTS, then MATMUL_MX: max(min(64, M), N) cycles, four times bfloat16's work "
        "(derived)",
    .sources =
        "nki.isa.nc_matmul_mx; trainium3_arch; mxfp-matmul guide. Assumed: order of the sum; "
        "operands dequantised to FP32 first, as in the guide's reference",
    .engines = kTensorOnly,
    .params = kParams,
    .since = Generation::kV4,
    .opcode = Opcode::kMATMUL_MX,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .pads_with_zeros = true,
    .exact_shapes = true,
};

}  // namespace nkisim::isa::ops::nc_matmul_mx
