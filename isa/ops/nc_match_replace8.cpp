// nc_match_replace8: replaces eight values in each partition and gives their places.
#include <cstring>

#include "isa/ops/shared/match8.hpp"

namespace nkisim::isa::ops::nc_match_replace8 {
namespace {

enum { kDst, kData, kVals, kImm, kDstIdx };

constexpr std::array<Param, 5> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "vals", .kind = ParamKind::kIn, .spaces = kOnChip, .doc = "8 per partition"},
    {.name = "imm", .kind = ParamKind::kReal, .doc = "replaces what matched"},
    {.name = "dst_idx",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = {Dtype::kUint32},
     .optional = true,
     .doc = "[P,8] positions of the matches"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_match8(data, inst.tensor(kVals), 1);
  check_same_shape("data", data, "dst", dst);
  if (dst.dtype != data.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "data's dtype, " + std::string(name(data.dtype)) + ",");
  }
  if (!inst.has(kDstIdx)) return;
  const TensorRef& index = inst.tensor(kDstIdx);
  check_same_rows("data", data, "dst_idx", index);
  if (index.columns() != 8)
    fail(Rule::operand_size, "dst_idx", describe(index), "8 elements per partition");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  const auto x = ctx.load(data), vals = ctx.load(inst.tensor(kVals));
  const auto out = ctx.load_raw(data);  // what does not match keeps its bits
  const auto index = ctx.make<std::uint32_t>(x.rows, 8);
  const auto size = static_cast<std::int64_t>(size_bytes(data.dtype));
  std::array<std::byte, 4> imm{};
  const auto replaced = static_cast<float>(inst.real(kImm));
  encode_one(data.dtype, replaced, imm.data());
  std::array<std::int64_t, 8> positions{};
  for (std::int64_t r = 0; r < x.rows; ++r) {
    match8(x.row(r), x.columns, vals.row(r), true, positions.data());
    for (std::size_t k = 0; k < 8; ++k) {
      index.row(r)[k] = static_cast<std::uint32_t>(positions[k]);
      if (positions[k] < 0) continue;
      const auto at = static_cast<std::size_t>(r * x.columns + positions[k]);
      ctx.watch(inst.tensor(kDst), &replaced, 1, at);
      std::memcpy(out.row(r) + positions[k] * size, imm.data(), static_cast<std::size_t>(size));
    }
  }
  ctx.store_raw(inst.tensor(kDst), out);
  if (inst.has(kDstIdx)) ctx.store_bits(inst.tensor(kDstIdx), index);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_match8(inst, machine, kVals, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_match_replace8",
    .doc = "Replaces eight values in each partition and reports where they were.",
    .semantics =
        "for k = 7..0: the first i with data[p,i] == vals[p,k] not taken yet: dst[p,i] = imm, "
        "dst_idx[p,k] = i; dst = data elsewhere; dst_idx all ones where there is none (assumed)",
    .cost = "N (printed as min(64, N) in 2.24 to 2.26)",
    .sources = "nki.isa.nc_match_replace8; 2.22 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kMATCH_REPLACE8,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .undefined = OpSpec::Undefined::kRows,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::nc_match_replace8
