// memset: fills a tile with a constant.
#include <cmath>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::memset {
namespace {

enum { kDst, kValue };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .free_dims = 4},
    {.name = "value", .kind = ParamKind::kReal, .doc = "a constant that fits dst's dtype"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const Dtype dtype = inst.tensor(kDst).dtype;
  const double value = inst.real(kValue);
  if (is_packed(dtype)) {
    if (value != 0.0) {
      fail(Rule::memset_value, "value", std::to_string(value), "0 for " + std::string(name(dtype)));
    }
    return;
  }
  if (!is_integer(dtype)) return;
  const int bits = dtype == Dtype::kBool ? 1 : 8 * size_bytes(dtype);
  const bool is_signed = dtype == Dtype::kInt8 || dtype == Dtype::kInt16 || dtype == Dtype::kInt32;
  const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  if (value == std::floor(value) && value < high && value >= (is_signed ? -high : 0.0)) return;
  fail(Rule::memset_value, "value", std::to_string(value),
       "a number that " + std::string(name(dtype)) + " can hold exactly");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const auto size = static_cast<std::int64_t>(size_bytes(dst.dtype));
  const auto out = ctx.make<std::byte>(dst.rows(), dst.columns() * size);
  std::array<std::byte, 4> element{};
  if (is_integer(dst.dtype)) {
    const auto bits = static_cast<std::uint32_t>(static_cast<std::int64_t>(inst.real(kValue)));
    encode_bits(dst.dtype, &bits, 1, element.data());
  } else if (!is_packed(dst.dtype)) {
    const auto value = static_cast<float>(inst.real(kValue));
    ctx.watch(dst, &value, 1);
    encode_one(dst.dtype, value, element.data());
  }
  fill_elements(out.data, element.data(), size, dst.elements());
  ctx.store_raw(dst, out);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.dtype = inst.tensor(kDst).dtype;
  if (inst.real(kValue) == 0.0) part.features |= kFeatZero;
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "memset",
    .doc = "Fills a tile with a constant.",
    .semantics = "dst[p,i] = value",
    .cost = "max(64, N/2) for zero in a 16-bit float dtype, else max(64, N)",
    .sources = "nki.isa.memset; 2.26 cost notes (default engine vector: assumed)",
    .engines = kVectorOrGpSimd,
    .params = kParams,
    .opcode = Opcode::kMEMSET,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .fills = true,
};

}  // namespace nkisim::isa::ops::memset
