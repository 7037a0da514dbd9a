// Implements few_points.hpp: computes each cost with and without the numbers of few measurements.

#include "src/report/few_points.hpp"

#include <algorithm>

#include "isa/base/stable_order.hpp"
#include "src/config/config_numbers.hpp"

namespace nkisim {
namespace {

using models::Fs;

constexpr std::size_t kMaxPlans = 4096;  // remembered before starting afresh

// The longest share of a transfer, with the trigger where that is of an address found at run time.
Fs time_of(const std::vector<models::LanePlan>& lanes) {
  Fs most = 0;
  for (const models::LanePlan& lane : lanes) {
    const Fs stalls = static_cast<Fs>(lane.load.stall * static_cast<double>(lane.load.bytes));
    most = std::max(most, lane.load.work + stalls + lane.load.cold);
  }
  return most;
}

Fs trigger_of(const isa::DmaWork& work, const models::DgeConfig& dge) {
  return work.dynamic ? dge.dynamic_trigger : 0;
}

Fs time_of(const isa::DmaWork& work, isa::DgeMode mode, const models::DmaConfig& config) {
  const models::DgeConfig& dge = config.dge(mode);
  return time_of(models::plan_dma(work, nullptr, dge, config)) + trigger_of(work, dge);
}

}  // namespace

void FewPoints::start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = &config;
  costs_ = std::make_unique<models::CostTable>(config, program);
  other_costs_ = std::make_unique<models::CostTable>(config, program, true);
  cost_ = std::make_unique<models::CostCache>(*costs_);
  other_cost_ = std::make_unique<models::CostCache>(*other_costs_);
  planner_ = std::make_unique<models::DmaPlanner>(config.dma);
  few_.assign(program.opcode_count(), {});
  plans_.clear();
  transfers_.clear();
  cores_.clear();
}

FewPoints::Core& FewPoints::core(int number) {
  const auto c = static_cast<std::size_t>(number);
  if (c >= cores_.size()) cores_.resize(c + 1);
  return cores_[c];
}

void FewPoints::Core::scaled(Fs now, Fs then) {
  const double ratio =
      static_cast<double>(std::max<Fs>(then, 0)) / static_cast<double>(std::max<Fs>(now, 1));
  least = std::min(least, ratio);
  most = std::max(most, ratio);
}

bool FewPoints::rests_on_few(const isa::Part& part) {
  Few& few = few_[static_cast<std::size_t>(part.opcode)][static_cast<std::size_t>(part.unit)];
  if (few == Few::kUnknown) {
    const std::string_view opcode = program_->opcode_name(part.opcode);
    const auto named = [&](const auto& row) {
      return row.otherwise != nullptr && row.unit == part.unit &&
             std::any_of(row.opcodes.begin(), row.opcodes.end(),
                         [&](const std::string& o) { return o == "*" || o == opcode; });
    };
    const bool yes = std::any_of(config_->rules.begin(), config_->rules.end(), named) ||
                     std::any_of(config_->extras.begin(), config_->extras.end(), named);
    few = yes ? Few::kYes : Few::kNo;
  }
  return few == Few::kYes;
}

// The rule that decides, or the surcharge that it has.
std::string FewPoints::name_of(const isa::Part& part, const models::CostRule& rule) const {
  if (rule.otherwise != nullptr) return rule.id;
  const std::string_view opcode = program_->opcode_name(part.opcode);
  for (const models::CostExtra& extra : config_->extras) {
    if (extra.otherwise == nullptr || extra.unit != part.unit) continue;
    if ((part.features & extra.present) != extra.present) continue;
    if (std::any_of(extra.opcodes.begin(), extra.opcodes.end(),
                    [&](const std::string& o) { return o == "*" || o == opcode; })) {
      return extra.id;
    }
  }
  return rule.id;
}

void FewPoints::add(const models::PartEvent& event) {
  if (event.sooner != 0 || event.later != 0) {
    Core& own = core(event.core);
    const Fs time = event.busy_to - event.busy_from;  // what bounds the next
    own.limit.add({event.sooner, event.later});
    own.scaled(time, time - event.sooner);
    own.scaled(time, time + event.later);
  }
  const isa::Part& part = *event.part;
  if (!rests_on_few(part)) return;
  const models::Cost& now = cost_->cost(part);
  const models::Cost& then = other_cost_->cost(part);
  const Fs duration = then.duration - now.duration, interval = then.interval - now.interval;
  const Fs change = std::abs(duration) > std::abs(interval) ? duration : interval;
  if (change == 0) return;
  Core& own = core(event.core);
  own.scaled(now.duration, then.duration);
  own.scaled(now.interval, then.interval);
  OpenTime& named = own.changes[name_of(part, *now.rule)];
  const bool sequencer = now.kind == models::PartKind::kSequencer;
  (sequencer ? own.sequencers[static_cast<std::size_t>(part.unit)] : named).add(change);
}

FewPoints::Planned FewPoints::planned(const isa::DmaWork& work, isa::DgeMode mode,
                                      std::shared_ptr<const models::TransferPlan> plan) {
  const models::DmaConfig other{*config_->dma.otherwise};
  Planned found;
  found.now = time_of(plan->lanes) + trigger_of(work, config_->dma.dge(mode));
  found.then = time_of(work, mode, other);
  found.number = transfers_.size();
  if (found.then != found.now && transfers_.size() < kMaxPlans) transfers_.push_back({work, mode});
  found.plan = std::move(plan);
  return found;
}

// Plans the transfer without each number.
std::string FewPoints::names_of(const Transfer& transfer) const {
  const models::DmaConfig& config = config_->dma;
  const auto [work, mode] = transfer;
  const Fs now = time_of(work, mode, config);
  const auto is = numbers(config), would = numbers(*config.otherwise);
  std::string names;
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (is[i].value == would[i].value) continue;
    models::DmaConfig without{static_cast<const models::DmaRates&>(config)};
    set_number(without, would[i]);
    if (time_of(work, mode, without) == now) continue;
    names += (names.empty() ? "dma." : ", dma.") + is[i].path;
  }
  return names;
}

void FewPoints::add(const models::DmaEvent& event) {
  if (config_->dma.otherwise == nullptr || event.inst->dma != nullptr) return;
  if (plans_.size() > kMaxPlans) plans_.clear();
  auto plan = planner_->plan(*event.work, nullptr, config_->dma.dge(event.mode));
  const models::TransferPlan* key = plan.get();
  auto at = plans_.find(key);
  if (at == plans_.end()) {
    at = plans_.emplace(key, planned(*event.work, event.mode, std::move(plan))).first;
  }
  const Planned& known = at->second;
  if (known.then == known.now) return;
  Core& own = core(event.core);
  own.scaled(known.now, known.then);
  own.transfers[known.number].add(known.then - known.now);
}

FewPoints::Found FewPoints::found() const {
  Found most;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    Found one = found(cores_[c]);
    one.core = c;
    const auto moves = [](const Found& f) {
      return f.time.sooner + f.time.later + f.limit.sooner + f.limit.later;
    };
    if (moves(one) > moves(most)) most = one;
  }
  return most;
}

FewPoints::Found FewPoints::found(const Core& core) {
  Found found{.limit = core.limit, .least = core.least, .most = core.most};
  for (const auto& [name, time] : core.changes) found.time.add(time);
  for (const auto& [number, time] : core.transfers) found.time.add(time);
  OpenTime branches;
  for (const OpenTime& time : core.sequencers) {
    branches.sooner = std::max(branches.sooner, time.sooner);
    branches.later = std::max(branches.later, time.later);
  }
  found.time.add(branches);
  return found;
}

std::vector<std::string> FewPoints::names(std::size_t core) const {
  std::map<std::string, OpenTime> changes = cores_.at(core).changes;
  for (const auto& [number, time] : cores_.at(core).transfers) {
    if (number < transfers_.size()) changes[names_of(transfers_[number])].add(time);
  }
  std::vector<std::pair<Fs, std::string>> sorted;
  for (const auto& [name, time] : changes) sorted.emplace_back(time.sooner + time.later, name);
  isa::sort_stably(sorted, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (auto& [time, name] : sorted) names.push_back(std::move(name));
  return names;
}

}  // namespace nkisim
