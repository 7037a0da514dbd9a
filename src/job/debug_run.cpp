// Runs a job (one simulation) for a debugger, and keeps the inputs to execute parts of it again.

#include "src/job/debug_run.hpp"

#include <utility>

#include "src/job/runner.hpp"

namespace nkisim {

DebugRun::DebugRun(Job job) : job_(std::move(job)) {
  loaded_ = &programs_.get(
      job_, [](std::uint64_t, std::uint64_t) {}, [](const Loaded&) {});
  if (program().ranks() > 1) {
    isa::fail(isa::Rule::options_exclude, "the program",
              std::to_string(program().ranks()) + " ranks", "one rank for a debugger");
  }
  values_ = job_.values && !program().timing_only();
  run();
}

DebugRun::~DebugRun() = default;

std::unique_ptr<isa::Memory> DebugRun::memory() const {
  auto memory = std::make_unique<isa::Memory>(program());
  for (const auto& [id, bytes] : inputs_) memory->load(id, *bytes);
  return memory;
}

void DebugRun::keep_inputs(isa::Memory& memory) {
  for (std::uint32_t id = 0; id < program().tensors().size(); ++id) {
    using enum isa::TensorRole;
    const isa::TensorRole role = program().tensor(id).role;
    if (role != kInput && role != kInputOutput && role != kConstant) continue;
    const isa::Region& region = memory.hbm(id);
    inputs_[id] = std::make_unique<isa::SharedBytes>(
        std::span(region.data(), static_cast<std::size_t>(region.size())));
  }
}

void DebugRun::run() {
  std::vector<std::unique_ptr<isa::Memory>> own;
  if (values_) {
    own.push_back(std::make_unique<isa::Memory>(program()));
    load_inputs(job_, loaded_->trace, nullptr, own);
    keep_inputs(*own.front());
  }
  RankInputs rank{.input = {.program = &program(), .memory = values_ ? own.front().get() : nullptr},
                  .origin = loaded_->origin};
  const isa::Conditions conditions = rank.input.options.conditions;
  rank.input.options.conditions.rules = isa::RulePolicy({.warn = {"undefined_value"}});
  std::vector<RankInputs> ranks;
  ranks.push_back(std::move(rank));
  execution_.emplace(std::move(ranks), config_for(job_, *loaded_), artifacts_);
  execution_->plan({.at = "0us"});
  try {
    execution_->run();
  } catch (const isa::Error& e) {
    error_ = e.what();
  }
  const Steps* steps = artifacts_.ranks.front().steps.get();
  if (steps == nullptr || steps->cores().empty()) {
    isa::fail(isa::Rule::limit_reached, error_.empty() ? "nothing was simulated" : error_);
  }
  isa::PartialRuns::Fresh fresh;
  if (values_) fresh = [this] { return memory(); };
  stops_.emplace(StopRank{.steps = steps, .conditions = conditions}, std::move(fresh));
}

}  // namespace nkisim
