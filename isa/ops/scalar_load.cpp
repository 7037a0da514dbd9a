// scalar_load: reads an integer of 32 or 64 bits into a register, a scalar of the device.
#include <cstring>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::scalar_load {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kHbmOrSbuf,
     .dtypes = kScalars,
     .doc = "one element",
     .steers = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& ref = inst.tensor(1);
  if (ref.elements() != 1) fail(Rule::operand_size, "src", describe(ref), "exactly one element");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& src = inst.tensor(1);
  const Tile<std::byte> raw = ctx.load_raw(src);
  std::int32_t narrow = 0;
  std::int64_t wide = 0;
  if (src.dtype == Dtype::kInt64) {
    std::memcpy(&wide, raw.data, sizeof wide);
  } else {
    std::memcpy(&narrow, raw.data, sizeof narrow);
    wide = narrow;
  }
  ctx.state().set_reg(inst.arg(0).integer, wide);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "scalar_load",
    .doc = "Reads an integer of 32 or 64 bits into a register, a scalar of the device.",
    .semantics = "dst = src",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.scalar_load. Assumed: the time of register_load at both widths",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kTENSOR_LOAD,
    .check = check,
    .eval = eval,
    .loads_register = true,
};

}  // namespace nkisim::isa::ops::scalar_load
