// nc_n_gather: gathers elements within each partition.
#include <algorithm>
#include <cstring>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::nc_n_gather {
namespace {

enum { kDst, kData, kIndices };
constexpr std::int64_t kGroup = 512;  // elements per instruction

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kSbufOnly, .dtypes = kAnyDtype},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kSbufOnly, .dtypes = kAnyDtype},
    {.name = "indices",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kUint32},
     .steers = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const TensorRef& indices = inst.tensor(kIndices);
  check_same_rows("data", data, "indices", indices);
  check_same_shape("indices", indices, "dst", dst);
  if (dst.dtype != data.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "data's dtype, " + std::string(name(data.dtype)) + ",");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  const auto index = ctx.load_bits(inst.tensor(kIndices));
  const auto in = ctx.load_raw(data);
  const auto size = static_cast<std::int64_t>(size_bytes(data.dtype));
  const auto out = ctx.make<std::byte>(index.rows, index.columns * size);
  for (std::int64_t r = 0; r < index.rows; ++r) {
    const std::uint32_t* of_row = index.row(r);
    const std::uint32_t* end = of_row + index.columns;
    const std::uint32_t* outside =
        std::find_if(of_row, end, [&](std::int64_t at) { return at >= data.columns(); });
    if (outside != end) {
      fail(Rule::index_out_of_bounds,
           "index " + std::to_string(outside - of_row) + " of partition " + std::to_string(r),
           std::to_string(*outside), "0 to " + std::to_string(data.columns() - 1));
    }
    gather_pieces(in.row(r), size, of_row, index.columns, size, out.row(r));
  }
  ctx.store_raw(inst.tensor(kDst), out);
}

// One part per 512 indices, which share the bytes in proportion.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef& dst = inst.tensor(kDst);
  const std::int64_t n = dst.columns();
  for (std::int64_t first = 0; first < n; first += kGroup) {
    const std::int64_t count = std::min(kGroup, n - first);
    Part part = default_part(inst, machine);
    part.elements = count;
    part.sbuf_write_bytes = dst.rows() * count * size_bytes(dst.dtype);
    part.sbuf_read_bytes = part.sbuf_write_bytes + dst.rows() * count * 4;  // uint32 indices
    out.parts.push_back(part);
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_n_gather",
    .doc = "Gathers elements within each partition.",
    .semantics =
        "dst[p,i] = data[p, indices[p,i]] with the free dimensions of data flattened; an index out "
        "of range is an error (not documented)",
    .cost = "not documented; one instruction per 512 indices",
    .sources = "nki.isa.nc_n_gather",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kN_GATHER,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .moves = OpSpec::Moves::kGathers,
};

}  // namespace nkisim::isa::ops::nc_n_gather
