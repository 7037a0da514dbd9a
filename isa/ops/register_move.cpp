// register_move: copies an integer or a register into a register.
#include <limits>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::register_move {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "src", .kind = ParamKind::kIntOrRegister},
}};

// Both readings of 32 bits: registers hold indices and bit patterns.
void check(const Inst& inst, const Machine& /*machine*/) {
  if (inst.arg(1).kind != Arg::Kind::kInt) return;
  const std::int64_t value = inst.integer(1);
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::uint32_t>::max()) {
    fail(Rule::integer_range, "src", std::to_string(value), "an integer of 32 bits");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int32_t>(ctx.value(inst.arg(1))));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "register_move",
    .doc = "Copies an integer or a register into a register.",
    .semantics = "dst = src, 32 bits",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_move",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .check = check,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::register_move
