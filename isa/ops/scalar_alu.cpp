// scalar_alu: arithmetic on scalars of 64 bits (those of 32: register_alu).
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::scalar_alu {
namespace {

constexpr std::array<std::string_view, 3> kScalarChoices = {"add", "subtract", "multiply"};
constexpr std::array<Param, 4> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "op", .kind = ParamKind::kEnum, .choices = kScalarChoices},
    {.name = "lhs", .kind = ParamKind::kIntOrRegister},
    {.name = "rhs", .kind = ParamKind::kIntOrRegister},
}};

void eval(const Inst& inst, OpContext& ctx) {
  const auto a = static_cast<std::uint64_t>(ctx.value(inst.arg(2)));
  const auto b = static_cast<std::uint64_t>(ctx.value(inst.arg(3)));
  const std::int64_t op = inst.integer(1);
  const std::uint64_t r = op == 0 ? a + b : op == 1 ? a - b : a * b;
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int64_t>(r));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "scalar_alu",
    .doc = "Arithmetic on scalars of 64 bits (those of 32: register_alu).",
    .semantics = "dst = lhs op rhs, 64-bit two's complement",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.NkiScalar. Assumed: the time of register_alu",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_ALU,
    .eval = eval,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::scalar_alu
