// Finds the critical path of a run: it goes back from the end, from each start to what delayed it.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "src/report/accounting.hpp"

namespace nkisim {
namespace {

using models::Fs;
using models::kNoQueue;
using models::QueueIndex;

constexpr int kInFlight = 8;  // more parts than an engine has at a time

Fs last_end(const Accounting::Core& core) {
  Fs end = 0;
  for (const Accounting::Engine& e : core.engines) {
    for (const PartRecord& p : e.parts) end = std::max(end, p.end);
  }
  for (const Accounting::Queue& q : core.queues) {
    for (const TransferRecord& t : q.transfers) end = std::max(end, t.visible);
    for (const CollectiveRecord& c : q.collectives) end = std::max(end, c.end);
  }
  return end;
}

using Piece = std::function<void(const PathItem&)>;

class Tracer {
 public:
  /// `ranks`: of the world, to cross over to; empty: none. `piece` gets the path, latest first.
  Tracer(std::span<const Accounting* const> ranks, const Accounting& accounting, int rank, int core,
         const Piece& piece)
      : ranks_(ranks),
        rank_(rank),
        core_id_(core),
        core_(&core_of(accounting, core)),
        piece_(piece) {}

  void run() {
    start_at_last();
    while (at_ > 0) {
      if (transfer_ != nullptr) {
        through_transfer();
      } else if (collective_ != nullptr) {
        through_collective();
      } else if (part_ != nullptr) {
        through_part();
      } else {
        add(0, Cause::kIssue, 0, nullptr, 0);
      }
    }
  }

 private:
  void add(Fs from, Cause cause, QueueIndex where, const isa::Inst* inst, std::uint64_t sequence) {
    if (from >= at_) return;
    piece_({from, at_, cause, where, inst, sequence, rank_, core_id_});
    at_ = from;
  }

  void start_at_last() {
    for (std::size_t e = 0; e < core_->engines.size(); ++e) {
      for (const PartRecord& p : core_->engines.at(e).parts) {
        if (p.end > at_) go_to(p, static_cast<QueueIndex>(e)), at_ = p.end;
      }
    }
    for (std::size_t q = 0; q < core_->queues.size(); ++q) {
      for (const TransferRecord& t : core_->queues[q].transfers) {
        if (t.visible <= at_) continue;
        transfer_ = &t;
        queue_ = static_cast<QueueIndex>(q);
        at_ = t.visible;
      }
      for (const CollectiveRecord& c : core_->queues[q].collectives) {
        if (c.end <= at_) continue;
        transfer_ = nullptr;
        collective_ = &c;
        queue_ = static_cast<QueueIndex>(q);
        at_ = c.end;
      }
    }
  }

  static const Accounting::Core& core_of(const Accounting& accounting, int core) {
    return accounting.cores().at(static_cast<std::size_t>(core));
  }

  // From its end to the trigger of the rank that came last.
  void through_collective() {
    const CollectiveRecord* c = collective_;
    add(c->ready, Cause::kCollective, queue_, c->inst, c->sequence);
    if (c->waited_for >= 0) {
      if (cross_to(c->waited_for, c->id)) {
        c = collective_;
      } else {
        add(c->start, Cause::kWaitRank, queue_, c->inst, c->sequence);
      }
    }
    collective_ = nullptr;
    for (const CollectiveRecord& before : core_->queues.at(queue_).collectives) {
      if (before.end != c->start || before.sequence >= c->sequence) continue;
      collective_ = &before;  // its stream was busy until then
      return;
    }
    add(c->trigger_end, Cause::kCollective, queue_, c->inst, c->sequence);
    if (!go_to_sequence(static_cast<QueueIndex>(c->engine), c->sequence)) part_ = nullptr;
  }

  // To the core of a rank that triggered the same operation last.
  bool cross_to(int rank, std::int64_t id) {
    if (static_cast<std::size_t>(rank) >= ranks_.size()) return false;
    if (ranks_[static_cast<std::size_t>(rank)] == nullptr) return false;
    const Accounting& there = *ranks_[static_cast<std::size_t>(rank)];
    const CollectiveRecord* found = nullptr;
    for (std::size_t c = 0; c < there.cores().size(); ++c) {
      const Accounting::Core& core = there.cores()[c];
      for (std::size_t q = 0; q < core.queues.size(); ++q) {
        for (const CollectiveRecord& record : core.queues[q].collectives) {
          if (record.id != id) continue;
          if (found != nullptr && record.trigger_end <= found->trigger_end) continue;
          found = &record;
          rank_ = rank;
          core_id_ = static_cast<int>(c);
          core_ = &core;
          queue_ = static_cast<QueueIndex>(q);
        }
      }
    }
    collective_ = found;
    return found != nullptr;
  }

  void go_to(const PartRecord& part, QueueIndex engine) {
    part_ = &part;
    transfer_ = nullptr;
    collective_ = nullptr;
    engine_ = engine;
  }

  void through_transfer() {
    const TransferRecord& t = *transfer_;
    add(t.last_packet, Cause::kSemaphore, queue_, t.inst, t.sequence);
    add(t.first_packet, Cause::kWaitDma, queue_, t.inst, t.sequence);
    add(t.ready, Cause::kDmaEngines, queue_, t.inst, t.sequence);
    add(t.trigger_end, Cause::kDmaLatency, queue_, t.inst, t.sequence);
    if (!go_to_sequence(static_cast<QueueIndex>(t.inst->engine), t.sequence)) part_ = nullptr;
    transfer_ = nullptr;
  }

  // The first part of the engine, in start order, of which `later` holds. What is asked for comes
  // ever earlier: it is looked for around the last one found, in steps that double.
  template <typename Later>
  std::deque<PartRecord>::const_iterator first_that(QueueIndex engine, Later&& later) {
    const Accounting::Engine& e = core_->engines.at(engine);
    const auto whole = [&later](const PartRecord& part) { return !later(part); };
    if (!e.in_order) {
      return std::partition_point(e.parts.begin(), e.parts.end(), whole);
    }
    if (near_of_ != core_) {
      near_of_ = core_;
      near_.fill(std::numeric_limits<std::size_t>::max());
    }
    std::size_t& near = near_.at(engine);
    near = std::min(near, e.parts.size());
    const auto at = [&e](std::size_t i) {
      return e.parts.begin() + static_cast<std::ptrdiff_t>(i);
    };
    auto p = at(near);  // most often it is a few before
    for (int i = 0; i < kInFlight && p != e.parts.begin() && later(*std::prev(p)); ++i) --p;
    near = static_cast<std::size_t>(p - e.parts.begin());
    std::size_t low = near, high = near, step = 1;  // sought between them
    while (low > 0 && later(e.parts[low - 1])) {
      high = low - 1;
      low -= std::min(low, step);
      step *= 2;
    }
    for (step = 1; high < e.parts.size() && !later(e.parts[high]); step *= 2) {
      low = high + 1;
      high += std::min(e.parts.size() - high, step);
    }
    const auto found = low == high ? at(low) : std::partition_point(at(low), at(high), whole);
    near = static_cast<std::size_t>(found - e.parts.begin());
    return found;
  }

  // The last part of an instruction that had started before `at_`.
  bool go_to_sequence(QueueIndex engine, std::uint64_t sequence) {
    const auto& parts = core_->engines.at(engine).parts;
    auto p =
        first_that(engine, [sequence](const PartRecord& part) { return part.sequence > sequence; });
    while (p != parts.begin()) {
      --p;
      if (p->start >= at_) continue;
      go_to(*p, engine);
      return true;
    }
    return false;
  }

  // Goes to the part that the engine worked on until `at_`. Among the parts that started before,
  // that is the latest that held the data path then, else the last that held it. The weights of a
  // matmul are loaded while the one before it runs. So an instruction need not have waited for the
  // latest start.
  bool go_to_earlier(QueueIndex engine) {
    const auto& parts = core_->engines.at(engine).parts;
    auto p = first_that(engine, [this](const PartRecord& part) { return part.start >= at_; });
    if (p == parts.begin()) return false;
    auto best = --p;
    for (int i = 0; i < kInFlight && p != parts.begin() && best->held_until < at_; ++i) {
      --p;
      if (p->held_until > best->held_until) best = p;
    }
    go_to(*best, engine);
    return true;
  }

  void through_part() {
    const PartRecord& p = *part_;
    const QueueIndex engine = engine_;
    add(std::max(p.start, std::min(at_, p.end)), Cause::kIssue, engine, p.inst, p.sequence);
    add(p.start, Cause::kBusy, engine, p.inst, p.sequence);
    if (p.woken && p.producer != kNoQueue) {
      add(p.producer_end, Cause::kSemaphore, engine, p.inst, p.sequence);
      if (at_ <= 0 || follow(p)) return;
    } else if (p.woken && go_to_earlier(engine)) {
      add(std::min(at_, part_->end), Cause::kSemaphore, engine, p.inst, p.sequence);
      return;
    }
    if (p.port_holder != isa::Engine::kAny &&
        go_to_earlier(static_cast<QueueIndex>(p.port_holder))) {
      return;
    }
    if (!go_to_earlier(engine)) part_ = nullptr;
  }

  // Goes to what the part waited for.
  bool follow(const PartRecord& p) {
    if (p.producer < isa::kEngineCount) return go_to_sequence(p.producer, p.producer_sequence);
    const Accounting::Queue& queue = core_->queues.at(p.producer);
    if (const CollectiveRecord* c = queue.collective(p.producer_sequence)) {
      if (c->trigger_end > at_) return false;
      collective_ = c;
      queue_ = p.producer;
      return true;
    }
    const TransferRecord* t = queue.transfer(p.producer_sequence);
    if (t == nullptr || t->trigger_end > at_) return false;
    transfer_ = t;
    queue_ = p.producer;
    return true;
  }

  std::span<const Accounting* const> ranks_;
  int rank_, core_id_;
  const Accounting::Core* core_;
  const Piece& piece_;
  Fs at_ = 0;
  const PartRecord* part_ = nullptr;
  const TransferRecord* transfer_ = nullptr;
  const CollectiveRecord* collective_ = nullptr;
  QueueIndex engine_ = 0, queue_ = 0;
  const Accounting::Core* near_of_ = nullptr;          // of which core near_ is
  std::array<std::size_t, isa::kEngineCount> near_{};  // where each engine's last part was found
};

std::vector<PathItem> collect(std::span<const Accounting* const> ranks,
                              const Accounting& accounting, int rank, int core) {
  std::vector<PathItem> path;
  const Piece piece = [&](const PathItem& item) { path.push_back(item); };
  Tracer(ranks, accounting, rank, core, piece).run();
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

void trace_back(const Accounting& accounting, int core,
                const std::function<void(const PathItem&)>& piece) {
  Tracer({}, accounting, 0, core, piece).run();
}

std::vector<PathItem> critical_path(const Accounting& accounting, int core) {
  return collect({}, accounting, 0, core);
}

std::vector<PathItem> critical_path(std::span<const Accounting* const> ranks) {
  std::size_t rank = 0, core = 0;
  Fs end = -1;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r] == nullptr) continue;
    for (std::size_t c = 0; c < ranks[r]->cores().size(); ++c) {
      const Fs last = last_end(ranks[r]->cores()[c]);
      if (last > end) rank = r, core = c, end = last;
    }
  }
  if (end < 0) return {};
  return collect(ranks, *ranks[rank], static_cast<int>(rank), static_cast<int>(core));
}

}  // namespace nkisim
