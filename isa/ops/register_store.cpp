// register_store: writes a register to one element of memory.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::register_store {
namespace {

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kHbmOrSbuf},
    {.name = "src", .kind = ParamKind::kRegister},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& ref = inst.tensor(0);
  if (ref.elements() != 1) fail(Rule::operand_size, "dst", describe(ref), "exactly one element");
}

void eval(const Inst& inst, EvalContext& ctx) {
  auto bits = ctx.make<std::uint32_t>(1, 1);
  bits.data[0] = static_cast<std::uint32_t>(ctx.value(inst.arg(1)));
  ctx.store_bits(inst.tensor(0), bits);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "register_store",
    .doc = "Writes a register to one element of memory.",
    .semantics = "dst = src (low bits of the register)",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.isa.register_store",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kTENSOR_STORE,
    .check = check,
    .eval = eval,
};

}  // namespace nkisim::isa::ops::register_store
