// loop_begin: opens a counted loop that every sequencer runs.
#include <limits>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::loop_begin {
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

constexpr std::int64_t kMaxBound = std::numeric_limits<std::int32_t>::max();

void check(const Inst& inst, const Machine& /*machine*/) {
  if (inst.integer(3, 1) < 1)
    fail(Rule::argument_value, "step", std::to_string(inst.integer(3)), "a positive constant");
  for (const int i : {1, 2, 3}) {  // registers have 32 bits
    if (!inst.has(i) || inst.arg(i).kind != Arg::Kind::kInt) continue;
    const std::int64_t value = inst.integer(i);
    if (value > kMaxBound || value < -kMaxBound - 1) {
      fail(Rule::integer_range, kParams.at(static_cast<std::size_t>(i)).name, std::to_string(value),
           "an integer of 32 bits");
    }
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
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

}  // namespace nkisim::isa::ops::loop_begin
