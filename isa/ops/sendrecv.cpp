// sendrecv: exchanges SBUF tiles between the two cores of a logical core.
#include <algorithm>

#include "isa/ops/shared/dma.hpp"

namespace nkisim::isa::ops::sendrecv {
namespace {

enum { kSrc, kDst, kSendTo, kRecvFrom, kPipeId, kDmaEngine };

constexpr std::array<std::string_view, 2> kDmaEngines = {"dma", "gpsimd_dma"};

constexpr std::array<Param, 6> kParams = {{
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kAnyDtype,
     .doc = "sent to the other core's dst"},
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = kAnyDtype,
     .doc = "receives; shape and dtype of src"},
    {.name = "send_to_rank", .kind = ParamKind::kInt, .doc = "0 or 1"},
    {.name = "recv_from_rank", .kind = ParamKind::kInt, .doc = "0 or 1"},
    {.name = "pipe_id", .kind = ParamKind::kInt, .doc = "operations of one id belong together"},
    {.name = "dma_engine",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kDmaEngines,
     .doc = "dma (absent), or gpsimd_dma: GpSimd's own, at most 256 elements per partition"},
}};

bool on_gpsimd(const Inst& inst) { return inst.integer(kDmaEngine) == 1; }

Engine pick_engine(const Inst& inst, const Machine& /*machine*/) {
  return on_gpsimd(inst) ? Engine::kGpSimd : Engine::kSync;
}

void check_rank(const Inst& inst, int param) {
  const std::int64_t rank = inst.integer(param);
  if (rank == 0 || rank == 1) return;
  fail(Rule::argument_value, kParams[static_cast<std::size_t>(param)].name, std::to_string(rank),
       "0 or 1");
}

void check(const Inst& inst, const Machine& /*machine*/) {
  constexpr std::int64_t kMostElements = 256;  // 1024, 512 and 256 bytes of 4, 2 and 1
  const TensorRef &src = inst.tensor(kSrc), &dst = inst.tensor(kDst);
  check_rank(inst, kSendTo);
  check_rank(inst, kRecvFrom);
  if (src.shape() != dst.shape()) {
    fail(Rule::operand_shape, "dst", describe(dst), "the shape of src, " + describe(src) + ",");
  }
  if (src.dtype != dst.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + ",");
  }
  if (!on_gpsimd(inst)) return;
  if (inst.engine != Engine::kGpSimd) {
    fail(Rule::engine_operand, "engine", std::string(name(inst.engine)), "gpsimd for gpsimd_dma");
  }
  if (src.columns() > kMostElements) {
    fail(Rule::operand_size, "src", describe(src),
         "at most " + std::to_string(kMostElements * size_bytes(src.dtype)) +
             " bytes per partition for gpsimd_dma");
  }
}

void check_partner(const Inst& inst, const Inst& peer) {
  const TensorRef& received = peer.tensor(kSrc);
  if (inst.integer(kPipeId) != peer.integer(kPipeId)) {
    fail(Rule::cores_disagree, "pipe_id", std::to_string(inst.integer(kPipeId)),
         "the other core's, " + std::to_string(peer.integer(kPipeId)) + ",");
  }
  if (inst.integer(kRecvFrom) == peer.core && peer.integer(kSendTo) != inst.core) {
    fail(Rule::core_deadlock, "core " + std::to_string(inst.core) + " receives from core " +
                                  std::to_string(peer.core) + ", which sends to core " +
                                  std::to_string(peer.integer(kSendTo)));
  }
  if (received.shape() != inst.tensor(kDst).shape() || received.dtype != inst.tensor(kDst).dtype) {
    fail(Rule::operand_shape, "dst", describe(inst.tensor(kDst)),
         "what the other core sends, " + describe(received) + ",");
  }
}

Parcel send(const Inst& inst, OpContext& ctx) { return ctx.pack(inst.tensor(kSrc)); }

// Both directions happen at once: what arrives is what the partner had when the two met.
void eval(const Inst& inst, OpContext& ctx) {
  const Parcel* theirs = ctx.received();
  if (theirs == nullptr || inst.integer(kRecvFrom) == inst.core) {  // one core receives its own
    ctx.store_raw(inst.tensor(kDst), ctx.load_raw(inst.tensor(kSrc)));
    return;
  }
  const Tile<std::byte> tile = ctx.make<std::byte>(theirs->rows, theirs->row_bytes);
  std::copy(theirs->bytes.begin(), theirs->bytes.end(), tile.data);
  ctx.store_raw(inst.tensor(kDst), tile);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const DmaRequest request{};
  expand_dma(inst, inst.tensor(kSrc), inst.tensor(kDst), resolve_dge(request, inst.engine, machine),
             out);
  out.parts.front().opcode = Opcode::kSENDRECV;
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "sendrecv",
    .doc = "Exchanges SBUF tiles between the two cores of a logical core.",
    .semantics =
        "dst of this core = src of core recv_from_rank, both directions at once; a program of one "
        "core receives what it sends (assumed)",
    .cost = "not documented; a DMA between the cores after they have met (config: dma)",
    .sources = "nki.isa.sendrecv; trainium2_arch (GpSimd DMA)",
    .engines = kAnySequencer,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kSENDRECV,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .rendezvous = true,
    .check_partner = check_partner,
    .send = send,
    .moves = OpSpec::Moves::kRearranges,
    .dma = true,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::sendrecv
