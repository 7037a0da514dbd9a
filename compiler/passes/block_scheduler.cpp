// Reorders the instructions between two barriers by this list scheduling algorithm:
//
//   admit instructions up to `window` past the first that is left; each waits for its predecessors
//   repeat until all are issued:
//     each engine chooses the oldest instruction whose operands are ready when the engine is free;
//       if none is, the one whose operands are ready first
//       an instruction that begins a tile's life must fit the SBUF budget, else it is held
//     issue the choice with the earliest start
//     advance the engine by the estimated interval, and the DMA engines by the transfer
//     release the followers at the time when the result is visible to them
#include "compiler/passes/block_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "compiler/passes/engines.hpp"

namespace nkisim::compiler {

BlockScheduler::BlockScheduler(const Context& context, std::span<const std::uint32_t> block,
                               std::size_t position)
    : context_(context),
      block_(block),
      position_(position),
      nodes_(block.size()),
      table_load_(context.estimator.table_load()) {
  context_.precedence.restart();
}

std::vector<std::uint32_t> BlockScheduler::run() {
  std::vector<std::uint32_t> order;
  order.reserve(block_.size());
  admit();
  while (order.size() < block_.size()) {
    Choice best;
    std::size_t engine = 0;
    for (std::size_t e = 0; e < lines_.size(); ++e) {
      const Choice choice = lines_.at(e).chosen ? lines_.at(e).choice : choose(lines_.at(e));
      if (choice.before(best)) {
        best = choice;
        engine = e;
      }
    }
    issue(engine, best);
    order.push_back(best.number);
    while (front_ < block_.size() && nodes_[front_].is(kDone)) ++front_;
    admit();
  }
  return order;
}

void BlockScheduler::admit() {
  const auto end = std::min<std::size_t>(block_.size(), front_ + context_.window);
  while (admitted_ < end) add(admitted_++);
}

void BlockScheduler::add(std::uint32_t number) {
  Node& node = nodes_[number];
  const std::uint32_t i = block_[number];
  node.estimate = &context_.estimator.estimate(inst(number));
  if (context_.balance && may_copy_elsewhere(inst(number))) node.flags |= kOpen;
  if (context_.budget.tracks() && context_.budget.begins(i)) node.flags |= kBegins;
  const auto edges = context_.precedence.add(
      i, number, [&](std::uint32_t n) { return nodes_[n].is(kDone) && nodes_[n].visible <= now_; });
  for (const Hazards::Edge& edge : edges) {
    Node& producer = nodes_[edge.producer];
    if (producer.is(kDone)) {
      link(number, edge);
    } else {
      Link& link = links_.take();
      link.follower = number;
      link.reads = edge.reads;
      producer.followers.push_front(link);
      ++node.waits_for;
    }
  }
  if (node.waits_for == 0) release(number);
}

// The producer has been issued: from when on may the follower start?
void BlockScheduler::link(std::uint32_t number, const Hazards::Edge& edge) {
  Node& node = nodes_[number];
  const Node& producer = nodes_[edge.producer];
  // An engine's data path keeps the order of its own writes.
  const Estimate &before = *producer.estimate, &own = *node.estimate;
  const bool ordered = before.engine == own.engine && !edge.reads && !before.is_dma && !own.is_dma;
  const models::Fs from =
      ordered ? producer.ready : producer.visible + context_.estimator.wake(own.engine);
  node.ready = std::max(node.ready, from);
}

void BlockScheduler::release(std::uint32_t number) {
  const Node& node = nodes_[number];
  const auto put = [&](isa::Engine engine) {
    Line& line = lines_.at(static_cast<std::size_t>(engine));
    line.later.push({node.ready, number});
    line.overtaken = line.overtaken || node.ready < line.settled;
    line.chosen = false;
  };
  put(node.estimate->engine);
  if (node.is(kOpen)) put(isa::Engine::kScalar);
}

const Estimate& BlockScheduler::on_scalar(std::uint32_t number) const {
  isa::Inst instruction = inst(number);
  instruction.engine = isa::Engine::kScalar;
  return context_.estimator.estimate(instruction);
}

// Open instructions that the other engine has taken.
void BlockScheduler::discard_done(Line& line) {
  if (!context_.balance) return;
  while (!line.now.empty() && nodes_[line.now.top()].is(kDone)) line.now.pop();
  while (!line.hungry.empty() && nodes_[line.hungry.top()].is(kDone)) line.hungry.pop();
  while (!line.later.empty() && nodes_[line.later.top().number].is(kDone)) line.later.pop();
}

void BlockScheduler::settle(Line& line, models::Fs time) {
  line.settled = std::max(line.settled, time);
  while (!line.later.empty() && line.later.top().ready <= time) {
    const std::uint32_t number = line.later.top().number;
    line.later.pop();
    if (!nodes_[number].is(kDone)) {
      (nodes_[number].is(kBegins) ? line.hungry : line.now).push(number);
    }
    discard_done(line);
  }
}

// Puts instructions back that are not ready yet. They counted as ready only because nothing was
// ready sooner.
void BlockScheduler::unsettle(Line& line) {
  if (line.overtaken && line.settled > line.free) {
    for (Lowest<std::uint32_t>* queue : {&line.now, &line.hungry}) {
      Lowest<std::uint32_t> kept;
      for (; !queue->empty(); queue->pop()) {
        const std::uint32_t number = queue->top();
        const models::Fs ready = nodes_[number].ready;
        ready > line.free ? line.later.push({ready, number}) : kept.push(number);
      }
      *queue = std::move(kept);
    }
    line.settled = line.free;
  }
  line.overtaken = false;
}

models::Fs BlockScheduler::start_on(const Line& line, std::uint32_t number) const {
  const Node& node = nodes_[number];
  return std::max({line.free, node.ready, node.is(kHeld) ? freed_ : 0});
}

// Holds until something is issued or released on the line, unless it depends on budget.
BlockScheduler::Choice BlockScheduler::choose(Line& line) {
  line.chosen = true;
  discard_done(line);
  unsettle(line);
  settle(line, line.free);
  if (line.now.empty() && line.hungry.empty() && !line.later.empty()) {
    settle(line, line.later.top().ready);
  }
  // The first that is left always fits; of the others the oldest that needs budget holds up those
  // behind it that need some, too.
  const auto blocked = [&] {
    if (line.hungry.empty()) return false;
    line.chosen = false;
    const std::uint32_t number = line.hungry.top();
    if (number == front_ || context_.budget.fits(block_[number], position_ + front_)) return false;
    nodes_[number].flags |= kHeld;
    return true;
  };
  while (line.now.empty() && !line.later.empty() && blocked()) {
    settle(line, line.later.top().ready);
  }
  Choice best;
  if (!line.now.empty()) best = {start_on(line, line.now.top()), line.now.top(), false};
  if (!line.hungry.empty() && (line.now.empty() || line.hungry.top() < best.number) && !blocked()) {
    best = {start_on(line, line.hungry.top()), line.hungry.top(), true};
  }
  line.choice = best;
  return best;
}

void BlockScheduler::issue(std::size_t engine, const Choice& choice) {
  Line& line = lines_.at(engine);
  line.chosen = false;
  (choice.hungry ? line.hungry : line.now).pop();
  Node& node = nodes_[choice.number];
  if (node.is(kOpen)) {  // in the queues of another line, too
    for (Line& other : lines_) other.chosen = false;
  }
  if (node.is(kOpen) && engine == static_cast<std::size_t>(isa::Engine::kScalar)) {
    node.flags |= kMoved;
    node.estimate = &on_scalar(choice.number);
  }
  const Estimate& estimate = *node.estimate;
  models::Fs start = choice.at;
  if (estimate.act_table != 0 && estimate.act_table != table_) {
    table_ = estimate.act_table;
    start += table_load_;
  }
  node.ready = start;
  line.free = start + estimate.interval;
  node.visible = start + estimate.latency;
  if (estimate.is_dma) finish_dma(node, start);
  node.flags |= kDone;
  now_ = std::max(now_, start);
  if (context_.budget.tracks() &&
      context_.budget.execute(block_[choice.number], position_ + front_)) {
    freed_ = std::max(freed_, node.visible);
  }
  while (!node.followers.empty()) {
    Link& next = node.followers.front();
    link(next.follower, {choice.number, next.reads});
    if (--nodes_[next.follower].waits_for == 0) release(next.follower);
    node.followers.pop_front();
    links_.give_back(next);
  }
}

// The DMA engines are shared by all transfers.
void BlockScheduler::finish_dma(Node& node, models::Fs start) {
  const models::Fs first = start + node.estimate->latency;
  transfers_ = std::max(transfers_, first) + node.estimate->transfer;
  node.visible = std::max(transfers_, first + node.estimate->lanes);
}

}  // namespace nkisim::compiler
