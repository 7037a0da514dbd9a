// The record of a spread world that all its parts keep: who has come to which call, and what the
// operations do.
#include <algorithm>

#include "models/collective/call.hpp"
#include "models/world_part.hpp"

namespace nkisim::models {

// Whatever is certain by now, in the order in which one process would find it.
void WorldPart::replay() {
  for (;;) {
    const Fs certain = plus(first_activity(), trigger_);  // no trigger before it is unknown
    const Fs arrival = next_arrival(), model = model_ == nullptr ? kNever : model_->next();
    const Fs now = std::min(arrival, model);
    if (now >= certain || mine_ || (failure_ && now >= failure_->time)) return;
    harvest(now);
    if (arrival > now) continue;
    while (next_arrival() == now) {
      arrive(arrivals_.top());
      arrivals_.pop();
    }
    try {
      start_ready(now);
    } catch (isa::Error& e) {
      ranks_.front().program->locate(e);
      fail(now, e);
      return;
    }
    harvest(now);
  }
}

void WorldPart::arrive(const Arrival& arrival) {
  Rank& rank = ranks_[static_cast<std::size_t>(arrival.rank)];
  Call& c = call(rank, arrival.call);
  ++c.arrived;
  c.triggered = std::max(c.triggered, arrival.time);
  if (arrival.call == rank.started) look(arrival.rank);
}

// Whether all cores of a rank have come to its oldest call.
void WorldPart::look(std::int64_t r) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const bool there = !rank.calls.empty() && rank.calls.front().arrived == rank.triggered.size();
  isa::WaitingRank& w = waiting_[static_cast<std::size_t>(r)];
  w.inst = nullptr;
  if (there) w.come_to(*rank.calls.front().insts.front());
  changed_ = changed_ || there;
}

void WorldPart::start_ready(Fs now) {
  while (changed_) {
    changed_ = false;
    for (const isa::WaitingRank& w : waiting_) {
      if (w.inst != nullptr) start(w.rank, now);
    }
  }
}

std::vector<isa::RankCalls> WorldPart::calls_of(const Group& group) {
  std::vector<isa::RankCalls> calls;
  for (const std::int64_t r : group) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const Call& c = rank.calls.front();
    isa::RankCalls& of_rank = calls.emplace_back();
    for (std::size_t core = 0; core < c.insts.size(); ++core) {
      isa::Member member{.rank = r, .inst = c.insts[core]};
      if (rank.device != nullptr) member.context = &rank.device->core(core).context();
      if (rank.device == nullptr) member.program = rank.program;
      if (core < c.sources.size()) member.sources = &c.sources[core];
      of_rank.push_back(member);
    }
  }
  return calls;
}

void WorldPart::start(std::int64_t r, Fs now) {
  const isa::WaitingRank& w = waiting_[static_cast<std::size_t>(r)];
  if (!isa::complete(w, waiting_)) return;
  const Group group = w.group.empty() ? Group{r} : w.group;
  const bool takes_part = !w.group.empty();
  const std::vector<isa::RankCalls> calls = calls_of(group);
  const bool here = std::any_of(group.begin(), group.end(),
                                [&](std::int64_t member) { return spread_.owns(member); });
  if (takes_part && here && evaluates_) {
    isa::run_collective(calls, world_);
  } else {
    isa::check_collective(calls);
  }
  if (group.size() > 1) {
    start(group, now);
  } else if (here) {
    Effect effect{.time = now, .rank = r};
    Call& c = ranks_[static_cast<std::size_t>(r)].calls.front();
    effect.end = c.triggered;
    effect.call = std::make_shared<Call>(std::move(c));
    effects_.push_back(effect);
  }
  if (group.size() == 1) {
    const auto owner = static_cast<std::size_t>(spread_.owner[static_cast<std::size_t>(r)]);
    parts_[owner].effects.push_back(now);
  }
  for (const std::int64_t member : group) {
    Rank& rank = ranks_[static_cast<std::size_t>(member)];
    if (at_once(member, *waiting_[static_cast<std::size_t>(member)].inst)) --hasty_;
    rank.calls.pop_front();
    ++rank.started;
    look(member);
  }
}

void WorldPart::start(const Group& group, Fs now) {
  const auto oldest = [&](std::int64_t r) -> Call& {
    return ranks_[static_cast<std::size_t>(r)].calls.front();
  };
  const isa::Inst& inst = *oldest(group.front()).insts.front();
  isa::Expansion expansion;
  isa::expand(inst, ranks_[static_cast<std::size_t>(group.front())].program->machine(), expansion);
  CollectiveRequest request =
      request_of(inst, expansion.collective, static_cast<std::size_t>(lnc_), group, world_);
  Running running{.group = group, .calls = {}, .left = group.size()};
  for (std::size_t i = 0; i < group.size(); ++i) {
    Call& c = oldest(group[i]);
    request.triggered.push_back(c.triggered);
    if (!c.lengths.empty()) request.lengths.push_back(c.lengths);
    if (!spread_.owns(group[i])) continue;
    c.sources.clear();
    running.calls[static_cast<int>(i)] = std::make_shared<Call>(std::move(c));
  }
  if (model_ == nullptr) model_ = std::make_unique<Collectives>(config_, lnc_, world_.ranks);
  running_.emplace(model_->start(std::move(request), now), std::move(running));
}

// fn(effect, rank of the world) of what a model does until `now`, in its order.
template <typename Fn>
void WorldPart::effects_of(Collectives& model, Fs now, const Fn& fn) {
  std::vector<Collectives::RankDone> done;
  model.advance(now, done);
  for (const Collectives::Moving& m : model.moving()) {
    fn(Effect{.time = now, .rank = m.rank, .moving = m}, nullptr);
  }
  for (const Collectives::RankDone& d : done) {
    const Running& running = running_.at(d.id);
    Effect effect{.time = now, .rank = running.group[static_cast<std::size_t>(d.position)]};
    effect.end = d.end;
    if (spread_.owns(effect.rank)) {
      effect.call = running.calls.at(d.position);
      effect.part = std::make_shared<RankPart>(model.part(d.id, d.position));
    }
    fn(effect, &d);
  }
}

// The model goes on to `now`, which is certain. What was foreseen must have come out so.
void WorldPart::harvest(Fs now) {
  if (model_ == nullptr) return;
  const Fs here = parts_[static_cast<std::size_t>(spread_.part)].done;
  effects_of(*model_, now, [&](const Effect& effect, const Collectives::RankDone* done) {
    Progress& part =
        parts_[static_cast<std::size_t>(spread_.owner[static_cast<std::size_t>(effect.rank)])];
    if (effect.time >= part.done) part.effects.push_back(effect.time);
    if (spread_.owns(effect.rank) && effect.time >= here) {
      effects_.push_back(effect);
    } else if (spread_.owns(effect.rank) && !session_.stopped()) {
      if (early_.empty() || !early_.front().same(effect)) {
        throw isa::Error(isa::Rule::internal_error, "internal error: a collective reached rank " +
                                                        std::to_string(effect.rank) +
                                                        " before it could be known");
      }
      early_.pop_front();
    }
    if (done == nullptr || --running_.at(done->id).left > 0) return;
    (void)model_->take(done->id);
    running_.erase(done->id);
  });
}

// What will reach this part's ranks before the limit if nobody triggers anything.
void WorldPart::foresee() {
  if (model_ != nullptr && !session_.stopped()) {
    const Fs here = parts_[static_cast<std::size_t>(spread_.part)].done;
    Collectives model(*model_);
    for (Fs at = model.next(); at < limit_; at = model.next()) {
      effects_of(model, at, [&](Effect effect, const Collectives::RankDone*) {
        effect.early = true;
        if (spread_.owns(effect.rank) && at >= here) effects_.push_back(effect);
      });
    }
  }
  schedule();
}

void WorldPart::check_finished() const {
  for (const Rank& rank : ranks_) {
    if (rank.calls.empty() || rank.calls.front().arrived == rank.triggered.size()) continue;
    for (const isa::Inst* inst : rank.calls.front().insts) {
      if (inst != nullptr) isa::fail_alone(*rank.program, *inst, nullptr);
    }
  }
  check_nobody_waits(waiting_);
}

}  // namespace nkisim::models
