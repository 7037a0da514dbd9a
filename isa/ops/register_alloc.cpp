#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "x", .kind = ParamKind::kIntOrRegister, .optional = true},
}};

void eval(const Inst& inst, EvalContext& ctx) {
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int32_t>(ctx.value(inst.arg(1))));
}

}  // namespace

extern const OpSpec spec_register_alloc;
const OpSpec spec_register_alloc = {
    .name = "register_alloc",
    .doc = "Names a sequencer register and optionally sets it.",
    .semantics = "dst = x (0 if absent), 32 bits",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_alloc",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa
