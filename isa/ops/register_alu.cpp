// register_alu: integer arithmetic on sequencer registers.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::register_alu {
namespace {

constexpr std::array<std::string_view, 8> kAluChoices = {"add",         "subtract",   "multiply",
                                                         "bitwise_and", "bitwise_or", "bitwise_xor",
                                                         "left_shift",  "right_shift"};
constexpr std::array<Param, 4> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "op", .kind = ParamKind::kEnum, .choices = kAluChoices},
    {.name = "lhs", .kind = ParamKind::kIntOrRegister},
    {.name = "rhs", .kind = ParamKind::kIntOrRegister},
}};

void eval(const Inst& inst, OpContext& ctx) {
  const auto a = static_cast<std::uint32_t>(ctx.value(inst.arg(2)));
  const auto b = static_cast<std::uint32_t>(ctx.value(inst.arg(3)));
  std::uint32_t r = 0;
  switch (inst.integer(1)) {
    case 0:
      r = a + b;
      break;
    case 1:
      r = a - b;
      break;
    case 2:
      r = a * b;
      break;
    case 3:
      r = a & b;
      break;
    case 4:
      r = a | b;
      break;
    case 5:
      r = a ^ b;
      break;
    case 6:
      r = b < 32 ? a << b : 0;
      break;
    default:
      r = b < 32 ? a >> b : 0;
      break;
  }
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int32_t>(r));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "register_alu",
    .doc = "Integer arithmetic on sequencer registers.",
    .semantics = "dst = lhs op rhs, 32-bit two's complement",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "KLR RegisterAluOp",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_ALU,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::register_alu
