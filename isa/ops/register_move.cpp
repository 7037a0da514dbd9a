#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "src", .kind = ParamKind::kIntOrRegister},
}};

void eval(const Inst& inst, EvalContext& ctx) {
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int32_t>(ctx.value(inst.arg(1))));
}

}  // namespace

extern const OpSpec spec_register_move;
const OpSpec spec_register_move = {
    .name = "register_move",
    .doc = "Copies an integer or a register into a register.",
    .semantics = "dst = src, 32 bits",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_move",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa
