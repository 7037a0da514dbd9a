// sendrecv_compute: combines a tile of one core with a tile of the other core of its logical core,
// element by element.
#include "isa/ops/shared/dma.hpp"

namespace nkisim::isa::ops::sendrecv_compute {
namespace {

enum { kSrc, kDst, kSendTo, kRecvFrom, kReduceOp };

constexpr std::array<Param, 5> kParams = {{
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "sent to the other core, and reduced with what it sends"},
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "memory, shape and dtype of src"},
    {.name = "send_to_rank", .kind = ParamKind::kInt, .doc = "0 or 1: the other core"},
    {.name = "recv_from_rank", .kind = ParamKind::kInt, .doc = "0 or 1: the other core"},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .doc = "add, maximum or minimum"},
}};

Engine pick_engine(const Inst& /*inst*/, const Machine& /*machine*/) { return Engine::kSync; }

void check_rank(const Inst& inst, int param) {
  const std::int64_t rank = inst.integer(param);
  if (rank == 0 || rank == 1) return;
  fail(Rule::argument_value, kParams[static_cast<std::size_t>(param)].name, std::to_string(rank),
       "0 or 1");
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &src = inst.tensor(kSrc), &dst = inst.tensor(kDst);
  check_rank(inst, kSendTo);
  check_rank(inst, kRecvFrom);
  const AluOp op = inst.choice(kReduceOp, AluOp::kAdd);
  if (op != AluOp::kAdd && op != AluOp::kMaximum && op != AluOp::kMinimum) {
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)), "add, maximum or minimum");
  }
  if (src.space != dst.space) {
    const std::string_view found = dst.on_chip() ? "in SBUF" : "in HBM";
    fail(Rule::operand_memory, "dst", std::string(found),
         dst.on_chip() ? "HBM, as src is," : "SBUF, as src is,");
  }
  if (src.shape() != dst.shape()) {
    fail(Rule::operand_shape, "dst", describe(dst), "the shape of src, " + describe(src) + ",");
  }
  if (src.dtype != dst.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + ",");
  }
}

void check_partner(const Inst& inst, const Inst& peer) {
  const TensorRef& sent = peer.tensor(kSrc);
  for (const int rank : {kSendTo, kRecvFrom}) {
    if (inst.integer(rank) == peer.core) continue;
    fail(Rule::argument_value, kParams[static_cast<std::size_t>(rank)].name,
         std::to_string(inst.integer(rank)), "the other core, " + std::to_string(peer.core) + ",");
  }
  if (inst.arg(kReduceOp).integer != peer.arg(kReduceOp).integer) {
    fail(Rule::cores_disagree, "reduce_op", std::string(name(inst.choice(kReduceOp, AluOp::kAdd))),
         "the other core's, " + std::string(name(peer.choice(kReduceOp, AluOp::kAdd))) + ",");
  }
  if (sent.shape() != inst.tensor(kDst).shape() || sent.dtype != inst.tensor(kDst).dtype) {
    fail(Rule::operand_shape, "dst", describe(inst.tensor(kDst)),
         "what the other core sends, " + describe(sent) + ",");
  }
}

Parcel send(const Inst& inst, OpContext& ctx) { return ctx.pack(inst.tensor(kSrc)); }

// As dma_compute: the DMA engines reduce in FP32.
void eval(const Inst& inst, OpContext& ctx) {
  const Parcel* theirs = ctx.received();
  if (theirs == nullptr) {
    fail(Rule::core_deadlock, "sendrecv_compute", "in a program of one core", "two cores (LNC 2)");
  }
  const TensorRef &src = inst.tensor(kSrc), &dst = inst.tensor(kDst);
  const Tile<float> mine = ctx.load(src);
  const auto count = static_cast<std::size_t>(mine.size());
  const Tile<float> peer = ctx.make<float>(mine.rows, mine.columns);
  decode(src.dtype, theirs->bytes.data(), static_cast<std::size_t>(theirs->elements()), peer.data);
  apply(inst.choice(kReduceOp, AluOp::kAdd), mine.data, peer.data, peer.data, count);
  ctx.store_raw(dst, ctx.cast(dst, peer));
}

// Both tiles are read, as the sources of dma_compute are.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const DmaRequest request{};
  expand_dma(inst, inst.tensor(kSrc), inst.tensor(kDst), resolve_dge(request, inst.engine, machine),
             out);
  out.parts.front().opcode = Opcode::kSENDRECV;
  move_bytes(2 * inst.tensor(kSrc).bytes(), out.dma);
  out.dma.compute = true;
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "sendrecv_compute",
    .doc = "Reduces a tile of each of the two cores of a logical core, on both.",
    .semantics =
        "dst = cast(reduce_op(FP32(src), FP32(src of the other core))), on both cores at once",
    .cost =
        "not documented; a DMA between the cores that reads both tiles, after they have met "
        "(config: dma)",
    .sources = "nki.isa.sendrecv_compute. Assumed: FP32, as dma_compute; the cost",
    .engines = kAnySequencer,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kSENDRECV,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .rendezvous = true,
    .needs_partner = true,
    .check_partner = check_partner,
    .send = send,
    .dma = true,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::sendrecv_compute
