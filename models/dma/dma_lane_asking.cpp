// Models a DMA engine on an HBM of another SystemC design: it requests each packet and waits.
#include <algorithm>
#include <utility>

#include "models/dma/dma_lane.hpp"

namespace nkisim::models {

void DmaLane::ask_by(std::function<void(const LaneRequest&)> ask, int outstanding) {
  ask_ = std::move(ask);
  outstanding_ = std::max(1, outstanding);
}

void DmaLane::advance_asking(Fs now, std::vector<LaneDone>& done) {
  while (busy_ > 0 && asked_ < outstanding_) {
    const Fs at = earliest();
    if (at > now) return;
    const bool was_idle = asked_ == 0 && at - free_ > config_.cold_idle;
    free_ = std::max(at, now);  // one that waited for an answer starts when that comes
    Queue& queue = *pick(at);
    Active& a = queue.head;
    if (a.first == kNever) {
      a.cold = was_idle && a.item.load->cold > 0;
      a.share = ++last_share_;
      a.first = free_;
      asked_shares_[a.share] = {};
    }
    ask_next(queue, done);
  }
}

// The packet of `queue` that starts at free_, with the times of step().
void DmaLane::ask_next(Queue& queue, std::vector<LaneDone>& done) {
  Active& a = queue.head;
  const LaneLoad& load = *a.item.load;
  const PacketRun& run = load.runs[a.run];
  const bool alone = std::none_of(queues_.begin(), queues_.end(), [&](const Queue& q) {
    return &q != &queue && q.busy && q.head.item.ready <= free_;
  });
  const bool is_semaphore = a.run + 1 == load.runs.size();
  const Fs start = free_;
  Fs span = run.interval - (alone ? 0 : run.gap);
  if (!is_semaphore) span += stall(a, 1);
  if (std::exchange(a.cold, false)) span += load.cold;
  free_ = start + span;
  if (!is_semaphore) {
    const Fs tail = run.duration - run.interval;
    a.payload_end = free_ + tail;
    const PacketTime packet{a.item.transfer, queue.index, start, span + tail, run.bytes};
    if (load.hbm_passes > 0) {
      ask(a, packet, tail, span);
    } else if (sink_ != nullptr) {
      sink_->push_back(packet);
    }
  }
  take(a, 1);
  if (a.total > 0) return;
  AskedShare& share = asked_shares_.at(a.share);
  share.done = {a.item.transfer, queue.index, a.first,
                std::max(a.payload_end, share.done.payload_end),
                std::max(start, share.done.semaphore_start)};
  share.issued = true;
  if (share.left == 0) {
    done.push_back(share.done);
    asked_shares_.erase(a.share);
  }
  next_share(queue);
}

void DmaLane::ask(const Active& a, const PacketTime& packet, Fs tail, Fs span) {
  const LaneLoad& load = *a.item.load;
  asked_packets_[++last_tag_] = {a.share, packet, tail, load.hbm_passes};
  ++asked_shares_.at(a.share).left;
  ++asked_;
  ask_({packet.transfer, load.bytes - a.bytes, packet.bytes, load.hbm_passes, span, last_tag_});
}

// An answer that comes before the engine itself is done with the packet delays nothing.
void DmaLane::answered(std::uint64_t tag, Fs now, std::vector<LaneDone>& done) {
  const auto found = asked_packets_.find(tag);
  AskedPacket& packet = found->second;
  if (--packet.left > 0) return;
  --asked_;
  const auto of = asked_shares_.find(packet.share);
  AskedShare& share = of->second;
  packet.time.duration = std::max(packet.time.duration, now - packet.time.start + packet.tail);
  const Fs end = packet.time.start + packet.time.duration;
  share.done.payload_end = std::max(share.done.payload_end, end);
  share.done.semaphore_start = std::max(share.done.semaphore_start, now);
  if (sink_ != nullptr) sink_->push_back(packet.time);
  asked_packets_.erase(found);
  if (--share.left > 0 || !share.issued) return;
  done.push_back(share.done);
  asked_shares_.erase(of);
}

}  // namespace nkisim::models
