// Computes the end of a DMA transfer in one step while only one queue has transfers (fast path).
//
// Otherwise packets are simulated one by one. A lane is one DMA engine. A share is the part of a
// transfer that one engine moves.
#include <algorithm>

#include "models/dma/dma_rings.hpp"

namespace nkisim::models {
namespace {

LaneDone done_alone(Transfer& transfer, const LaneLoad& load, const LaneAlone& share) {
  return {.transfer = &transfer,
          .queue = transfer.op->queue,
          .start = share.start,
          .payload_end = load.runs.size() > 1 ? share.end + load.tail : 0,
          .semaphore_start = share.end};
}

}  // namespace

void DmaRings::report_share(Transfer& t, const LanePlan& plan, const LaneAlone& share) {
  core_->dma_share(t, plan, done_alone(t, plan.load, share));
}

// Ends an engine's share of the first transfer pending.
inline void DmaRings::finish_share(Transfer& t, std::size_t e) {
  const LaneAlone& share = alone_.first.shares[e];
  const LanePlan& plan = t.plan->lanes[e];
  lanes_[e]->did_alone(t.op->queue, plan.load, share);
  if (plan.packets > 0) {
    t.first_packet = std::min(t.first_packet, share.start);
    t.last_packet = std::max(t.last_packet, share.end + plan.load.tail);
    if (options_.shares) [[unlikely]]
      report_share(t, plan, share);
  }
  t.visible = t.queue->arrive(share.end);
  const bool last = --t.lanes_left == 0;
  if (last) whole(t, share.end);
  if (last || t.each_update) updates_.push({t.visible, order_++, &t, static_cast<int>(e)});
}

// Adds a transfer to the fast path. False if it must be simulated by packets, as engines have
// other work.
bool DmaRings::add_alone(Transfer& transfer, Fs ready) {
  const std::vector<LanePlan>& plans = transfer.plan->lanes;
  const bool first = alone_.pending.empty();
  bool fits = options_.fast_path && requests_ == nullptr &&
              (first ||
               (!alone_.split && alone_.pending.front().transfer->op->queue == transfer.op->queue));
  for (std::size_t e = 0; e < plans.size() && fits; ++e) {
    fits = lanes_[e]->can_be_alone(plans[e].load);
  }
  if (!fits) {
    simulate_packets();
    return false;
  }
  alone_.pending.push_back({&transfer, ready});
  if (!first) return true;
  find_shares(alone_.pending.front(), nullptr, alone_.first);
  soonest_ = std::min(soonest_, alone_.first.planned);
  return true;
}

// Finds when each engine moves its share of a transfer. `before`: what the engines do first.
void DmaRings::find_shares(const ExclusiveTransfers::Pending& pending, const LaneTimes* before,
                           LaneTimes& found) const {
  const std::vector<LanePlan>& plans = pending.transfer->plan->lanes;
  Fs start = kNever, planned = kNever, end = 0;
  for (std::size_t e = 0; e < plans.size(); ++e) {
    const LanePlan& plan = plans[e];
    const Fs ready = pending.ready + plan.offset;
    LaneAlone& share = found.shares[e];
    share = before == nullptr ? lanes_[e]->alone(ready, plan.load)
                              : lanes_[e]->alone_after(before->shares[e], ready, plan.load);
    start = std::min(start, share.start);
    planned = std::min(planned, share.planned);
    end = std::max(end, share.end);
  }
  found.start = start;
  found.planned = planned;
  found.end = end;
}

// Leaves the fast path: from now on the engines simulate packets.
void DmaRings::simulate_packets() {
  for (; !alone_.pending.empty(); alone_.pending.pop_front()) {
    const auto [transfer, ready] = alone_.pending.front();
    for (std::size_t e = 0; e < lanes_.size(); ++e) {
      if (!alone_.split || alone_.left[e]) push(e, ready, *transfer);
    }
    alone_.split = false;
  }
}

// Engines do their shares of the only transfer pending at different times. All of them are looked
// at, or those for which it was planned. False if one was done that had to look at packets.
bool DmaRings::split_alone(Fs now, bool all) {
  Transfer& transfer = *alone_.pending.front().transfer;
  alone_.split = true;
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    const LaneAlone& share = alone_.first.shares[e];
    alone_.left[e] = true;
    planned_[e] = share.planned;
    const bool looks = all || share.planned <= now;
    if (looks && share.start <= now && share.end > now) look_at(e, now);
  }
  if (!finished_.empty()) {
    if (all) std::fill(planned_.begin(), planned_.end(), now);
    return false;
  }
  sort_alone();
  for (const std::uint32_t e : alone_.order) {
    const LaneAlone& share = alone_.first.shares[e];
    if (!alone_.left[e] || share.end > now || !(all || share.planned <= now)) continue;
    alone_.left[e] = false;
    planned_[e] = kNever;
    finish_share(transfer, e);
  }
  soonest_ = *std::min_element(planned_.begin(), planned_.end());
  end_split();
  return true;
}

// Ends the split if no engine has a part left.
void DmaRings::end_split() {
  if (!alone_.split) return;
  if (std::find(alone_.left.begin(), alone_.left.end(), true) != alone_.left.end()) return;
  alone_.split = false;
  alone_.pending.pop_front();
}

// Takes an engine's share of a split transfer. True if the engine needs no further look now.
bool DmaRings::take_left(std::size_t e, Fs now) {
  const LaneAlone& share = alone_.first.shares[e];
  const auto [transfer, ready] = alone_.pending.front();
  if (share.start > now) {
    planned_[e] = share.planned;
    return true;
  }
  alone_.left[e] = false;
  const LaneLoad& load = transfer->plan->lanes[e].load;
  if (share.end > now) {
    lanes_[e]->push(transfer->op->queue, ready + transfer->plan->lanes[e].offset, load, transfer);
    return false;
  }
  lanes_[e]->did_alone(transfer->op->queue, load, share);
  finished_.push_back({share.end, static_cast<int>(e), static_cast<std::uint32_t>(done_.size())});
  done_.push_back(done_alone(*transfer, load, share));
  planned_[e] = kNever;
  return true;
}

// False if engines have to look: one has begun with what it does not finish by `now`, or is done
// with a transfer before another is with the one before it.
bool DmaRings::take_alone(Fs now) {
  bool ended = false;
  while (!alone_.pending.empty() && alone_.first.end <= now) {
    const bool more = alone_.pending.size() > 1;
    if (more) {
      find_shares(alone_.pending[1], &alone_.first, alone_.second);
      if (alone_.second.start <= alone_.first.end) break;
    }
    ended = true;
    finish_alone(*alone_.pending.front().transfer);
    alone_.pending.pop_front();
    if (!more) {
      soonest_ = kNever;
      return true;
    }
    std::swap(alone_.first, alone_.second);
    soonest_ = alone_.first.planned;
  }
  if (ended && alone_.first.start > now) return true;
  if (alone_.pending.size() == 1) return split_alone(now, ended);
  simulate_packets();
  if (ended) std::fill(planned_.begin(), planned_.end(), now);
  return false;
}

// Sorts the engines by the starts of their semaphore writes. Most often the order is that of the
// transfer before.
void DmaRings::sort_alone() {
  const std::vector<LaneAlone>& shares = alone_.first.shares;
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return shares[a].end != shares[b].end ? shares[a].end < shares[b].end : a < b;
  };
  if (std::is_sorted(alone_.order.begin(), alone_.order.end(), before)) return;
  std::sort(alone_.order.begin(), alone_.order.end(), before);
}

void DmaRings::finish_alone(Transfer& transfer) {
  sort_alone();
  for (const std::uint32_t e : alone_.order) finish_share(transfer, e);
}

}  // namespace nkisim::models
