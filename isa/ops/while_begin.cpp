// while_begin: opens a loop that runs while a register is not zero.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::while_begin {
namespace {

constexpr std::array<Param, 1> kParams = {{
    {.name = "register", .kind = ParamKind::kRegister},
}};

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "while_begin",
    .doc = "Opens a loop that runs while a register is not zero.",
    .semantics = "while (register != 0)",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kCOMPARE_BRANCH,
    .control = OpSpec::Control::kWhileBegin,
};

}  // namespace nkisim::isa::ops::while_begin
