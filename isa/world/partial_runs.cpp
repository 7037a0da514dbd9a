// Executes a program without timing to a given instant, from the nearest saved copy of memory.

#include "isa/world/partial_runs.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "isa/world/core_run.hpp"

namespace nkisim::isa {

struct PartialRuns::State {
  std::unique_ptr<Memory> memory = nullptr;
  CoreRuns cores = {};

  [[nodiscard]] std::uint64_t steps() const {
    std::uint64_t all = 0;
    for (const auto& core : cores) all += core->steps;
    return all;
  }
  [[nodiscard]] bool within(const std::vector<std::uint64_t>& first) const {
    return std::all_of(cores.begin(), cores.end(), [&](const auto& core) {
      return core->steps <= first[static_cast<std::size_t>(core->number)];
    });
  }
};

PartialRuns::PartialRuns(const Program& program, Fresh fresh, InterpretOptions options,
                         std::uint64_t every, std::int64_t most)
    : program_(program),
      fresh_(std::move(fresh)),
      options_(std::move(options)),
      every_(every),
      most_(most),
      written_(program.tensors().size()) {
  options_.effect = {};
  for (const Inst& inst : program.insts()) {
    for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool write) {
      if (write && ref.tensor < written_.size()) written_[ref.tensor] = true;
    });
  }
}

PartialRuns::~PartialRuns() = default;

std::int64_t PartialRuns::kept_bytes() const {
  return std::accumulate(
      kept_.begin(), kept_.end(), std::int64_t{0},
      [](std::int64_t all, const auto& state) { return all + state->memory->copied_bytes(); });
}

std::unique_ptr<PartialRuns::State> PartialRuns::begin() const {
  auto state = std::make_unique<State>();
  state->memory = fresh_();
  std::vector<std::uint32_t> all;
  for (std::uint32_t id = 0; id < program_.tensors().size(); ++id) {
    if (!program_.tensor(id).is_raw()) all.push_back(id);
  }
  state->memory->keep(std::move(all));
  state->memory->begin_run();
  for (int c = 0; c < program_.cores(); ++c) {
    state->cores.push_back(std::make_unique<CoreRun>(program_, *state->memory, c, options_));
  }
  return state;
}

std::unique_ptr<PartialRuns::State> PartialRuns::copy(const State& from) const {
  auto state = std::make_unique<State>();
  state->memory = from.memory->copy(written_);
  for (const auto& core : from.cores) {
    state->cores.push_back(std::make_unique<CoreRun>(*core, program_, *state->memory, options_));
  }
  return state;
}

// A copy of the last state kept that has nothing but these steps.
std::unique_ptr<PartialRuns::State> PartialRuns::nearest(
    const std::vector<std::uint64_t>& first) const {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                  [&](const auto& state) { return state->within(first); });
  return found == kept_.rend() ? begin() : copy(**found);
}

void PartialRuns::keep(const State& state) {
  const auto at =
      std::upper_bound(kept_.begin(), kept_.end(), state.steps(),
                       [](std::uint64_t steps, const auto& s) { return steps < s->steps(); });
  const std::uint64_t before = at == kept_.begin() ? 0 : (*std::prev(at))->steps();
  if (state.steps() < before + every_) return;
  kept_.insert(at, copy(state));
  while (kept_.size() > 1 && kept_bytes() > most_) {
    every_ *= 2;
    std::deque<std::unique_ptr<State>> fewer;
    for (std::size_t i = 1; i < kept_.size(); i += 2) fewer.push_back(std::move(kept_[i]));
    kept_ = std::move(fewer);
  }
}

void PartialRuns::advance(State& state, const std::vector<std::uint64_t>& first) {
  for (bool moved = true; moved;) {
    moved = false;
    bool all_wait = true;
    for (const auto& core : state.cores) {
      const std::uint64_t end = first[static_cast<std::size_t>(core->number)];
      if (core->waiting == nullptr && !core->done && core->steps < end) {
        run_core(*core, options_, count_, std::min(end, core->steps + every_));
        moved = true;
      }
      all_wait = all_wait && core->waiting != nullptr;
    }
    if (all_wait) {
      meet_alone(program_, state.cores, options_);
      moved = true;
    }
    if (moved) keep(state);
  }
}

// Executes what is executed behind the first steps.
void PartialRuns::finish(State& state, const ExecutedSteps& steps) {
  InterpretOptions options = options_;
  options.effect = [&](int core, std::uint64_t step) {
    const auto& own = steps.effects[static_cast<std::size_t>(core)];
    return step < own.size() ? own[step] : StepEffect::kEnd;
  };
  for (;;) {
    bool waiting = false;
    for (const auto& core : state.cores) {
      if (!core->done && core->waiting == nullptr) run_core(*core, options, count_);
      waiting = waiting || core->waiting != nullptr;
    }
    if (!waiting) return;
    meet_alone(program_, state.cores, options);
  }
}

Memory& PartialRuns::run(const ExecutedSteps& steps) {
  shown_ = nullptr;
  std::unique_ptr<State> state;
  if (last_ != nullptr && last_->within(steps.first)) {
    const bool nearer = std::any_of(kept_.begin(), kept_.end(), [&](const auto& kept) {
      return kept->within(steps.first) && kept->steps() > last_->steps();
    });
    if (!nearer) state = std::move(last_);
  }
  last_ = nullptr;
  if (state == nullptr) state = nearest(steps.first);
  advance(*state, steps.first);
  shown_ = copy(*state);
  last_ = std::move(state);
  finish(*shown_, steps);
  return *shown_->memory;
}

}  // namespace nkisim::isa
