// Sends packets of the DMA rings to an HBM stack of another SystemC design, and takes its answers.
#include "models/dma/dma_rings.hpp"

namespace nkisim::models {

// Engines before this one move the bytes before its own.
void DmaRings::ask(std::size_t e, const LaneRequest& packet) {
  const Transfer& t = *static_cast<const Transfer*>(packet.transfer);
  std::int64_t offset = packet.offset;
  for (std::size_t before = 0; before < e; ++before) offset += t.plan->lanes[before].bytes;
  HbmRequest request{.core = id_,
                     .engine = static_cast<int>(e),
                     .bytes = packet.bytes,
                     .stack_bytes = packet.passes * packet.bytes,
                     .span = packet.span,
                     .tag = packet.tag};
  const isa::DmaWork& work = t.op->expansion().dma;
  for (const bool write : {false, true}) {
    if ((write ? work.dst : work.src) != isa::Space::kHbm) continue;
    request.write = write;
    request.address = layout_.address(*t.op->step.inst, write, offset);
    requests_->ask(request, *this);
    request.stack_bytes = 0;
  }
}

void DmaRings::answered(const HbmRequest& request) {
  const auto e = static_cast<std::size_t>(request.engine);
  std::vector<LaneDone> done;
  lanes_[e]->answered(request.tag, core_->now(), done);
  report_packets(request.engine);
  for (const LaneDone& share : done) finish_lane(request.engine, share);
  look_sooner(e);
  core_->dma_sooner();
}

int DmaRings::asked() const {
  int count = 0;
  for (const DmaLane* lane : lanes_) count += lane->asked();
  return count;
}

}  // namespace nkisim::models
