// if_begin: opens a branch taken when a comparison holds.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::if_begin {
namespace {

constexpr std::array<Param, 3> kParams = {{
    {.name = "lhs", .kind = ParamKind::kIntOrRegister},
    {.name = "compare", .kind = ParamKind::kEnum, .choices = kCompareChoices},
    {.name = "rhs", .kind = ParamKind::kIntOrRegister},
}};

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "if_begin",
    .doc = "Opens a branch taken when a comparison holds.",
    .semantics = "if (lhs compare rhs)",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kCOMPARE_BRANCH,
    .control = OpSpec::Control::kIfBegin,
};

}  // namespace nkisim::isa::ops::if_begin
