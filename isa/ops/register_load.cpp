// register_load: reads one element of memory into a register.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::register_load {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "src", .kind = ParamKind::kIn, .spaces = kHbmOrSbuf, .steers = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& ref = inst.tensor(1);
  if (ref.elements() != 1) fail(Rule::operand_size, "src", describe(ref), "exactly one element");
}

void eval(const Inst& inst, OpContext& ctx) {
  const auto bits = ctx.load_bits(inst.tensor(1));
  ctx.state().set_reg(inst.arg(0).integer, static_cast<std::int32_t>(bits.data[0]));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "register_load",
    .doc = "Reads one element of memory into a register.",
    .semantics = "dst = src (up to 32 bits)",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_load; profiler opcode TENSOR_LOAD",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kTENSOR_LOAD,
    .check = check,
    .eval = eval,
    .loads_register = true,
};

}  // namespace nkisim::isa::ops::register_load
