// scalar_store: writes a scalar of the device to one element of 32 or 64 bits.
#include <cstring>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::scalar_store {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kHbmOrSbuf,
     .dtypes = kScalars,
     .doc = "one element, of the scalar's width"},
    {.name = "value", .kind = ParamKind::kRegister},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& ref = inst.tensor(0);
  if (ref.elements() != 1) fail(Rule::operand_size, "dst", describe(ref), "exactly one element");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(0);
  const std::int64_t value = ctx.value(inst.arg(1));
  const auto narrow = static_cast<std::int32_t>(value);
  if (dst.dtype == Dtype::kInt32 && narrow != value) {
    fail(Rule::integer_range, "value", std::to_string(value), "an integer of 32 bits, as dst is");
  }
  const auto size = size_bytes(dst.dtype);
  const Tile<std::byte> raw = ctx.make<std::byte>(1, size);
  std::memcpy(raw.data, &value, static_cast<std::size_t>(size));
  ctx.store_raw(dst, raw);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "scalar_store",
    .doc = "Writes a scalar of the device to one element of 32 or 64 bits.",
    .semantics = "dst = value",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.scalar_store. Assumed: the time of register_store at both widths",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kTENSOR_STORE,
    .check = check,
    .eval = eval,
};

}  // namespace nkisim::isa::ops::scalar_store
