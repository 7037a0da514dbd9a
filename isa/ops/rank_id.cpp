// rank_id: puts the number of this rank into a register.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::rank_id {
namespace {

constexpr std::array<Param, 1> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
}};

void eval(const Inst& inst, OpContext& ctx) {
  ctx.state().set_reg(inst.arg(0).integer, ctx.state().rank);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "rank_id",
    .doc = "Puts the number of this rank in the world into a register.",
    .semantics = "dst = rank, from 0",
    .cost = "sequencer time of a register move (assumed)",
    .sources = "nki.collectives.rank_id. Assumed: the world's number, as public kernels use it",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .eval = eval,
    .asks_rank = true,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::rank_id
