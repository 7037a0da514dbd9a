// register_alloc: names a sequencer register and optionally sets it.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::register_alloc {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "x", .kind = ParamKind::kIntOrRegister, .optional = true},
}};

void eval(const Inst& inst, OpContext& ctx) {
  const std::int64_t id = inst.arg(0).integer;
  if (!inst.has(1)) return ctx.state().unset_reg(id);
  ctx.state().set_reg(id, static_cast<std::int32_t>(ctx.value(inst.arg(1))));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "register_alloc",
    .doc = "Names a sequencer register and optionally sets it.",
    .semantics =
        "dst = x, 32 bits; absent: dst holds whatever it held, and is to be set before it is used",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_alloc",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::register_alloc
