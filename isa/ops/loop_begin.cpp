#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {

constexpr std::array<Param, 4> kParams = {{
    {.name = "register", .kind = ParamKind::kRegister},
    {.name = "start", .kind = ParamKind::kIntOrRegister},
    {.name = "stop", .kind = ParamKind::kIntOrRegister},
    {.name = "step",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "positive constant, default 1"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  if (inst.integer(3, 1) < 1) fail("step", std::to_string(inst.integer(3)), "a positive constant");
}

}  // namespace

extern const OpSpec spec_loop_begin;
const OpSpec spec_loop_begin = {
    .name = "loop_begin",
    .doc = "Opens a counted loop that every sequencer runs.",
    .semantics = "for (reg = start; reg < stop; reg += step)",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kCOMPARE_BRANCH,
    .check = check,
    .control = OpSpec::Control::kLoopBegin,
};

}  // namespace nkisim::isa
