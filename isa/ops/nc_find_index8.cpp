// nc_find_index8: positions of eight values in each partition.
#include "isa/ops/shared/match8.hpp"

namespace nkisim::isa::ops::nc_find_index8 {
namespace {

enum { kDst, kData, kVals };

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = {Dtype::kUint16, Dtype::kUint32}},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "vals", .kind = ParamKind::kIn, .spaces = kOnChip, .doc = "8 per partition"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_match8(data, inst.tensor(kVals), 8);
  check_same_rows("data", data, "dst", dst);
  if (dst.columns() != 8)
    fail(Rule::operand_size, "dst", describe(dst), "8 elements per partition");
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto x = ctx.load(inst.tensor(kData)), vals = ctx.load(inst.tensor(kVals));
  const auto out = ctx.make<std::uint32_t>(x.rows, 8);
  std::array<std::int64_t, 8> positions{};
  for (std::int64_t r = 0; r < x.rows; ++r) {
    match8(x.row(r), x.columns, vals.row(r), false, positions.data());
    for (std::size_t k = 0; k < 8; ++k) {
      out.row(r)[k] = static_cast<std::uint32_t>(positions[k]);  // -1: all ones
    }
  }
  ctx.store_bits(inst.tensor(kDst), out);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_match8(inst, machine, kVals, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_find_index8",
    .doc = "Positions of eight values in each partition.",
    .semantics =
        "dst[p,k] = first i with data[p,i] == vals[p,k] in FP32; equal vals take successive "
        "occurrences in ascending k; all ones where there is none",
    .cost = "N",
    .sources = "nki.isa.nc_find_index8; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kFIND_INDEX8,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .undefined = OpSpec::Undefined::kRows,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::nc_find_index8
