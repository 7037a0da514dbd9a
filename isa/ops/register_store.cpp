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

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(0);
  const std::int64_t value = ctx.value(inst.arg(1)),
                     bits_end = std::int64_t{1} << 8 * size_bytes(dst.dtype);
  auto bits = ctx.make<std::uint32_t>(1, 1);
  bits.data[0] = static_cast<std::uint32_t>(value);
  ctx.store_bits(dst, bits);
  if (!is_integer(dst.dtype) || (value >= -bits_end / 2 && value < bits_end)) return;
  ctx.report(ctx.level(Rule::cast_overflow), Rule::cast_overflow,
             "the register holds " + std::to_string(value) + ", and " +
                 std::string(name(dst.dtype)) + " gets its low " +
                 std::to_string(8 * size_bytes(dst.dtype)) + " bits");
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
