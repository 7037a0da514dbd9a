// nonzero_with_count: positions and number of the nonzero elements of every 16th partition.
#include <algorithm>
#include <cstring>

#include "isa/ops/shared/affine.hpp"

namespace nkisim::isa::ops::nonzero_with_count {
namespace {

enum { kDst, kSrc, kIndexOffset, kPaddingVal };
constexpr std::int64_t kCorePartitions = 16;  // each GpSimd core reads its first partition only

constexpr std::array<Param, 4> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kInOut,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kInt32},
     .doc = "one element more than src; only partitions 0, 16, ... are written"},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kFloat32, Dtype::kInt32}},
    {.name = "index_offset", .kind = ParamKind::kInt, .optional = true},
    {.name = "padding_val", .kind = ParamKind::kInt, .optional = true, .doc = "default -1"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  check_same_rows("src", src, "dst", dst);
  if (dst.columns() != src.columns() + 1) {
    fail(Rule::operand_shape, "dst", describe(dst),
         std::to_string(src.columns() + 1) + " elements per partition (one more than src)");
  }
  check_int32("index_offset", inst.integer(kIndexOffset));
  check_int32("padding_val", inst.integer(kPaddingVal, -1));
}

// Every 16th partition of an operand: only those are touched.
TensorRef core_row(const TensorRef& ref, std::int64_t row) {
  TensorRef one = ref;
  one.partition = static_cast<std::uint16_t>(ref.partition + row);
  one.partitions = 1;
  return one;
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  const auto offset = static_cast<std::uint32_t>(inst.integer(kIndexOffset));
  const auto padding = static_cast<std::uint32_t>(inst.integer(kPaddingVal, -1));
  std::vector<Tile<float>> rows;
  for (std::int64_t r = 0; r < src.rows(); r += kCorePartitions) {
    rows.push_back(ctx.load(core_row(src, r)));
  }
  for (std::int64_t r = 0; r < src.rows(); r += kCorePartitions) {
    const Tile<float>& x = rows[static_cast<std::size_t>(r / kCorePartitions)];
    const auto out = ctx.make<std::uint32_t>(1, dst.columns());
    std::fill_n(out.data, out.columns, padding);
    std::uint32_t count = 0;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      if (x.data[i] != 0.0F) out.data[count++] = offset + static_cast<std::uint32_t>(i);
    }
    out.data[x.columns] = count;
    ctx.store_bits(core_row(dst, r), out);
  }
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  const std::int64_t cores = (src.rows() + kCorePartitions - 1) / kCorePartitions;
  part.partitions = static_cast<std::int32_t>(cores);
  part.sbuf_read_bytes = cores * src.columns() * size_bytes(src.dtype);
  part.sbuf_write_bytes = cores * dst.columns() * size_bytes(dst.dtype);
  part.elements = src.columns();
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nonzero_with_count",
    .doc = "Positions and number of the nonzero elements of every 16th partition.",
    .semantics =
        "for p = 0, 16, ...: dst[p,0..c-1] = index_offset + positions of src[p,:] != 0, then "
        "padding_val, dst[p,N] = c; other partitions keep their data",
    .cost = "not documented",
    .sources = "nki.isa.nonzero_with_count",
    .engines = kGpSimdOnly,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kNONZERO_WITH_COUNT,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .undefined = OpSpec::Undefined::kRows,
};

}  // namespace nkisim::isa::ops::nonzero_with_count
