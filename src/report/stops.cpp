// Lists the instants of a finished run, and describes the state at each, for a debugger.

#include "src/report/stops.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/report/stop_parts.hpp"

namespace nkisim {
namespace {
namespace of_stops {

using Control = isa::OpSpec::Control;

// The walk does it in any case, whether it is executed or not.
bool of_sequencer(const isa::Inst* inst) {
  return inst != nullptr &&
         (isa::spec(*inst).control != Control::kNone || isa::spec(*inst).on_sequencer);
}

// Steps of each core from its beginning, all executed and with the same number of meetings.
std::vector<std::uint64_t> first_steps(const Steps& steps, const of_stop::Effects& effects) {
  std::vector<std::vector<std::uint64_t>> meetings(effects.size());  // steps behind each meeting
  std::vector<std::uint64_t> first;
  std::size_t least = ~std::size_t{0};
  for (std::size_t c = 0; c < effects.size(); ++c) {
    const auto& core = steps.cores()[c].steps;
    std::uint64_t n = 0;
    for (; n < effects[c].size(); ++n) {
      const isa::Inst* inst = core[n].inst;
      if (effects[c][n] != isa::StepEffect::kAll && !of_sequencer(inst)) break;
      if (inst == nullptr) continue;
      if (isa::spec(*inst).rendezvous || isa::spec(*inst).combine != nullptr) {
        meetings[c].push_back(n);
      }
    }
    first.push_back(n);
    least = std::min(least, meetings[c].size());
  }
  for (std::size_t c = 0; c < effects.size(); ++c) {
    if (meetings[c].size() > least) first[c] = meetings[c][least];
  }
  return first;
}

}  // namespace of_stops
}  // namespace

Stops::Stops(const StopRank& run, isa::PartialRuns::Fresh fresh) : run_(run) {
  const Steps& steps = *run_.steps;
  for (std::size_t c = 0; c < steps.cores().size(); ++c) {
    const auto& own = steps.cores()[c].steps;
    for (std::size_t n = 0; n < own.size(); ++n) {
      const isa::Inst* inst = own[n].inst;
      if (inst == nullptr || own[n].end == models::kNever) continue;
      if (isa::spec(*inst).control != of_stops::Control::kNone) continue;
      moments_.push_back({own[n].end, static_cast<int>(c), n, inst});
    }
  }
  std::sort(moments_.begin(), moments_.end(), [](const Moment& a, const Moment& b) {
    return std::tie(a.time, a.core, a.step) < std::tie(b.time, b.core, b.step);
  });
  if (!fresh) return;
  isa::InterpretOptions options;
  options.conditions = {.unwritten = run_.conditions.unwritten,
                        .rules = isa::RulePolicy({.warn = {"undefined_value"}}),
                        .stochastic_rounding = run_.conditions.stochastic_rounding};
  runs_ = std::make_unique<isa::PartialRuns>(steps.program(), std::move(fresh), options);
}

nlohmann::ordered_json Stops::describe(const Moment& moment) const {
  return {{"core", moment.core},
          {"engine", isa::name(moment.inst->engine)},
          {"instruction", isa::spec(*moment.inst).name},
          {"source", of_stop::place_of(run_.steps->program(), *moment.inst)}};
}

nlohmann::ordered_json Stops::state(models::Fs at) const {
  nlohmann::ordered_json j = {{"at_us", of_stop::in_us(at)}};
  j.update(of_stop::rank_json(*run_.steps, at));
  j["semaphores"] = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < run_.steps->cores().size(); ++c) {
    std::map<int, std::int64_t> values;
    for (const models::SemaphoreEvent& event : run_.steps->cores()[c].semaphores) {
      if (event.time > at) break;
      values[event.semaphore] = event.value;
    }
    for (const auto& [semaphore, value] : values) {
      j["semaphores"].push_back({{"core", c}, {"semaphore", semaphore}, {"value", value}});
    }
  }
  return j;
}

isa::ExecutedSteps Stops::executed_at(models::Fs at) const {
  std::set<std::int64_t> collectives;
  for (const Steps::Core& core : run_.steps->cores()) {
    for (const StepTimes& s : core.steps) {
      if (s.collective >= 0 && s.complete(at)) collectives.insert(s.collective);
    }
  }
  isa::ExecutedSteps steps;
  steps.effects = of_stop::effects_of(*run_.steps, at, collectives);
  steps.first = of_stops::first_steps(*run_.steps, steps.effects);
  return steps;
}

std::vector<StopValue> Stops::values(models::Fs at, const std::vector<std::string>& names) {
  const isa::Program& program = run_.steps->program();
  std::vector<std::uint32_t> ids;
  for (const std::string& name : names) ids.push_back(of_stop::tensor_of(program, name));
  std::vector<StopValue> values;
  if (!runs_) return values;
  isa::Memory& memory = runs_->run(executed_at(at));
  for (const std::uint32_t id : ids) {
    values.push_back(of_stop::value_of(program, id, memory, run_.conditions.unwritten));
    values.back().writers = of_stop::writers_of(*run_.steps, id, at);
  }
  return values;
}

}  // namespace nkisim
