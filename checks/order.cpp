// Simulates only the semaphores of a program, to find which instruction certainly precedes which.
#include "checks/order.hpp"

namespace nkisim::checks {
namespace {

std::int64_t amount_of(const isa::SemaphorePost& post) {
  using enum isa::SemaphorePost::Action;
  return post.action == kIncrement || post.action == kDecrement ? 1 : post.value;
}

bool meets(const isa::Inst& inst) { return isa::spec(inst).rendezvous; }

}  // namespace

Order::Order(const isa::Program& program, const Stream& stream, std::function<void()> goes_on)
    : program_(program),
      stream_(stream),
      goes_on_(std::move(goes_on)),
      clocks_(stream, Components(static_cast<std::size_t>(program.cores()), stream.queues.size())),
      ids_(static_cast<std::size_t>(program.cores()) << 16U, kNone),
      lanes_(static_cast<std::size_t>(program.cores()) * kLanes),
      previous_(stream.steps.size(), kNone),
      done_(stream.steps.size(), false) {
  order_.reserve(stream.steps.size());
  execute();
  // Posts that were made later may have satisfied a wait as well: once more, until nothing changes.
  const bool settled = std::all_of(semaphores_.begin(), semaphores_.end(),
                                   [](const Semaphore& s) { return !s.waited || s.simple(); });
  if (settled) return;
  while (improve()) {
  }
}

Semaphore& Order::semaphore(std::uint8_t core, std::uint16_t id) {
  const std::uint32_t key = static_cast<std::uint32_t>(core) << 16U | id;
  std::uint32_t& at = ids_[key];
  if (at == kNone) {
    at = static_cast<std::uint32_t>(semaphores_.size());
    semaphores_.emplace_back();
    semaphores_.back().core = core;
    semaphores_.back().id = id;
  }
  return semaphores_[at];
}

const Semaphore& Order::semaphore(std::uint8_t core, std::uint16_t id) const {
  return semaphores_[ids_[static_cast<std::uint32_t>(core) << 16U | id]];
}

void Order::execute() {
  const auto& steps = stream_.steps;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    goes_on_();
    const isa::Inst& inst = *steps[i].inst;
    if (inst.sync != nullptr) {
      for (const auto& w : inst.sync->waits) semaphore(inst.core, w.semaphore).waited = true;
    }
    Lane& lane = lanes_[lane_of(inst)];
    if (!lane.steps.empty()) previous_[i] = lane.steps.back();
    lane.steps.push_back(i);
    // One step may set free what other engines have been waiting with.
    bool again = advance(lane_of(inst));
    while (again) {
      again = false;
      for (std::size_t l = 0; l < lanes_.size(); ++l) again |= advance(l);
    }
  }
  note_stuck();
}

bool Order::runnable(std::uint32_t step) const {
  const Step& s = stream_.steps[step];
  if (s.holder != kNone && !done_[s.holder]) return false;
  if (s.inst->sync == nullptr) return true;
  const auto& waits = s.inst->sync->waits;
  return std::all_of(waits.begin(), waits.end(), [&](const isa::SemaphoreWait& w) {
    return holds(w, semaphore(s.inst->core, w.semaphore).value);
  });
}

// Runs a lane as far as it goes now. True if others may go on because of it.
bool Order::advance(std::size_t at) {
  Lane& lane = lanes_[at];
  bool changed = false;
  while (lane.next < lane.steps.size() && runnable(lane.steps[lane.next])) {
    const std::uint32_t step = lane.steps[lane.next];
    const isa::Inst& inst = *stream_.steps[step].inst;
    if (meets(inst) && program_.cores() > 1) {
      const std::size_t before = order_.size();
      meet();
      if (order_.size() == before) return changed;
      changed = true;
      continue;
    }
    ++lane.next;
    order_.push_back(step);
    settle(step);  // before its own posts are there to help it
    run(step);
    changed |= inst.sync != nullptr || inst.dma != nullptr || isa::spec(inst).loads_register;
  }
  return changed;
}

void Order::run(std::uint32_t step) {
  done_[step] = true;
  post(step);
}

// Every core runs its next rendezvous if all have come to it.
void Order::meet() {
  std::vector<std::size_t> met;
  for (int core = 0; core < program_.cores(); ++core) {
    for (std::size_t e = 0; e < kLanes; ++e) {
      const std::size_t l = static_cast<std::size_t>(core) * kLanes + e;
      const Lane& lane = lanes_[l];
      if (lane.next == lane.steps.size()) continue;
      const std::uint32_t step = lane.steps[lane.next];
      if (!meets(*stream_.steps[step].inst) || !runnable(step)) continue;
      // If two engines of a core wait at a rendezvous, the earlier step comes first.
      if (met.size() > static_cast<std::size_t>(core)) {
        const Lane& other = lanes_[met.back()];
        if (other.steps[other.next] > step) met.back() = l;
      } else {
        met.push_back(l);
      }
    }
    if (met.size() != static_cast<std::size_t>(core) + 1) return;
  }
  const std::size_t first = order_.size();
  for (const std::size_t l : met) order_.push_back(lanes_[l].steps[lanes_[l].next++]);
  settle_meeting(first);
  for (std::size_t i = first; i < order_.size(); ++i) run(order_[i]);
}

void Order::post(std::uint32_t step) {
  const Step& s = stream_.steps[step];
  const isa::Inst& inst = *s.inst;
  const Components& c = clocks_.components();
  const bool raises = inst.dma != nullptr && inst.dma->semaphore >= 0;
  if (inst.sync != nullptr) {
    for (const bool at_issue : {true, false}) {
      for (const isa::SemaphorePost& p : inst.sync->posts) {
        if (p.at_issue != at_issue) continue;
        using enum isa::SemaphorePost::Action;
        const bool up = p.action == kIncrement || p.action == kAdd;
        if (at_issue) {
          apply(step, p, c.issued(inst.core, inst.engine), s.number);
        } else if (s.queue == kNone || raises) {
          apply(step, p, c.finished(inst.core, inst.engine), s.number);
        } else if (up) {
          post_transfer(step, p.semaphore, amount_of(p));
        } else {
          apply(step, p, c.queue(s.queue), s.transfer);
        }
      }
    }
  }
  if (raises && s.queue != kNone) {
    post_transfer(step, static_cast<std::uint16_t>(inst.dma->semaphore), inst.dma->increment);
  }
}

// The engines of a transfer add their shares one by one: the last share is what it is over by.
void Order::post_transfer(std::uint32_t step, std::uint16_t id, std::int64_t amount) {
  const Step& s = stream_.steps[step];
  Semaphore& sem = semaphore(s.inst->core, id);
  const std::uint32_t component = clocks_.components().queue(s.queue);
  const bool shares = amount > 0 && amount % kDmaEngines == 0;
  const std::int64_t last = shares ? amount / kDmaEngines : amount;
  if (shares) sem.add(sem.up, component, {s.transfer, s.transfer - 1, step, amount - last, 0});
  sem.add(sem.up, component, {s.transfer, s.transfer, step, last, 0});
  sem.value += amount;
}

void Order::apply(std::uint32_t step, const isa::SemaphorePost& p, std::uint32_t component,
                  std::uint32_t number) {
  Semaphore& sem = semaphore(stream_.steps[step].inst->core, p.semaphore);
  const std::int64_t amount = amount_of(p);
  const Post made{number, number, step, amount, 0};
  using enum isa::SemaphorePost::Action;
  if (p.action == kSet) {
    sem.add(sem.set, component, made);
    sem.value = amount;
  } else if (p.action == kIncrement || p.action == kAdd) {
    sem.add(sem.up, component, made);
    sem.value += amount;
  } else {
    sem.add(sem.down, component, made);
    sem.value -= amount;
  }
}

// Finds what is certain when a step starts, from its engine's past, its registers and its waits.
// True if that is more than at the step before it on its engine.
bool Order::begin(std::uint32_t step, Clock& known) const {
  const Step& s = stream_.steps[step];
  const isa::Inst& inst = *s.inst;
  if (previous_[step] == kNone) {
    known.assign(clocks_.components().count(), 0);
  } else {
    known = clocks_.start(previous_[step]);
  }
  join(known, Point{clocks_.components().issued(inst.core, inst.engine), s.number - 1});
  bool learned = false;
  if (s.holder != kNone && !knows(known, clocks_.end(s.holder))) {
    join(known, clocks_.after(s.holder));
    learned = true;
  }
  if (inst.sync == nullptr) return learned;
  // A second round uses the proof of one wait for another: they hold at the same moment.
  const std::size_t rounds = std::min<std::size_t>(inst.sync->waits.size(), 2);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const isa::SemaphoreWait& w : inst.sync->waits) {
      learned |= prove(semaphore(inst.core, w.semaphore), w, clocks_, known);
    }
  }
  return learned;
}

bool Order::settle(std::uint32_t step) {
  const Step& s = stream_.steps[step];
  const bool waits = s.inst->sync != nullptr && !s.inst->sync->waits.empty();
  const std::uint32_t before = previous_[step];
  const std::uint32_t held = before == kNone ? kNone : stream_.steps[before].holder;
  if ((!waits && held == s.holder) || !begin(step, known_)) {
    return clocks_.share_start(step, before);
  }
  return clocks_.set_start(step, known_);
}

bool Order::settle_meeting(std::size_t at) {
  Clock all(clocks_.components().count(), 0);
  const auto cores = static_cast<std::size_t>(program_.cores());
  for (std::size_t i = at; i < at + cores; ++i) {
    begin(order_[i], known_);
    join(all, known_);
  }
  bool changed = false;
  for (std::size_t i = at; i < at + cores; ++i) changed |= clocks_.set_start(order_[i], all);
  return changed;
}

bool Order::improve() {
  bool changed = false;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    goes_on_();
    const isa::Inst& inst = *stream_.steps[order_[i]].inst;
    if (meets(inst) && program_.cores() > 1) {
      changed |= settle_meeting(i);
      i += static_cast<std::size_t>(program_.cores()) - 1;
    } else {
      changed |= settle(order_[i]);
    }
  }
  return changed;
}

void Order::note_stuck() {
  for (const Lane& lane : lanes_) {
    if (lane.next == lane.steps.size()) continue;
    const Step& s = stream_.steps[lane.steps[lane.next]];
    DeadlockedEngine stuck;
    stuck.inst = s.inst;
    bool own = false;
    if (s.inst->sync != nullptr) {
      for (const isa::SemaphoreWait& w : s.inst->sync->waits) {
        const Semaphore& sem = semaphore(s.inst->core, w.semaphore);
        if (own || holds(w, sem.value)) continue;
        own = true;
        stuck.wait = w;
        stuck.value = sem.value;
        stuck.posted = !sem.up.empty() || !sem.down.empty() || !sem.set.empty();
      }
    }
    stuck.meeting = !own && meets(*s.inst);
    if (own || stuck.meeting) stuck_.push_back(stuck);
  }
}

std::vector<isa::SemaphoreWait> Order::proofs_of(std::uint32_t step, std::uint32_t before) const {
  std::vector<isa::SemaphoreWait> found;
  const Point end = clocks_.end(step);
  for (const Semaphore& s : semaphores_) {
    if (!s.simple() || s.up.empty() || s.up.front().component != end.component) continue;
    const PostList& list = s.up.front();
    const std::size_t from = list.first_after(end.number - 1);
    if (from == list.posts.size()) continue;
    std::size_t at = from;  // the first that says it ended
    while (at < list.posts.size() && list.posts[at].own < end.number) ++at;
    if (at == list.posts.size() || list.posts[at].step >= before) continue;
    found.push_back(
        {s.id, isa::SemaphoreWait::Compare::kGe, static_cast<std::int32_t>(list.posts[at].sum)});
  }
  return found;
}

}  // namespace nkisim::checks
