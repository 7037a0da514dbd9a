// Describes the instructions, engines and tensors of a simulated run at one instant.

#include "src/report/stop_parts.hpp"

#include <algorithm>

#include "isa/base/nearest.hpp"
#include "src/report/waits.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim::of_stop {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;
using models::kNever;

constexpr double kFsPerUs = 1e9;

// For each meeting of a rank's cores, in their order: whether one of the cores has gone on.
std::vector<bool> ended_meetings(const Steps& steps, Fs at) {
  std::vector<bool> ended;
  for (const Steps::Core& core : steps.cores()) {
    std::size_t number = 0;
    for (const StepTimes& s : core.steps) {
      if (s.inst == nullptr || !isa::spec(*s.inst).rendezvous) continue;
      if (number >= ended.size()) ended.resize(number + 1);
      ended[number] = ended[number] || s.complete(at);
      ++number;
    }
  }
  return ended;
}

}  // namespace

double in_us(Fs time) { return static_cast<double>(time) / kFsPerUs; }

Effects effects_of(const Steps& steps, Fs at, const std::set<std::int64_t>& collectives) {
  using enum isa::StepEffect;
  const std::vector<bool> meetings = ended_meetings(steps, at);
  Effects effects;
  for (const Steps::Core& core : steps.cores()) {
    auto& own = effects.emplace_back();
    std::size_t meeting = 0, last = 0;
    for (const StepTimes& s : core.steps) {
      const bool meets = s.inst != nullptr && isa::spec(*s.inst).rendezvous;
      const bool others = (meets && meetings[meeting]) || collectives.count(s.collective) != 0;
      meeting += meets ? 1 : 0;
      own.push_back(s.complete(at) ? kAll : others ? kSend : kNone);
      if (own.back() != kNone) last = own.size();
    }
    own.resize(last);
  }
  return effects;
}

std::uint32_t tensor_of(const isa::Program& program, const std::string& name) {
  std::vector<std::string_view> names;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (t.name == name && !t.is_raw()) return id;
    names.push_back(t.name);
  }
  isa::fail(isa::Rule::unknown_tensor, "dump", name,
            "the name of a tensor of the program" + isa::suggest(name, names));
}

StopValue value_of(const isa::Program& program, std::uint32_t id, isa::Memory& memory,
                   isa::Unwritten unwritten) {
  const isa::Tensor& t = program.tensor(id);
  StopValue value{.name = t.name, .dtype = t.dtype, .shape = t.shape};
  value.bytes = memory.read(id);
  value.valid.assign(static_cast<std::size_t>(t.elements()), 1);
  if (unwritten == isa::Unwritten::kAllow) return value;  // not known
  const isa::Definedness& bits = memory.bits(id);
  const std::int64_t size = isa::size_bytes(t.dtype);
  const auto bytes = static_cast<std::int64_t>(value.bytes.size());
  for (std::int64_t at = bits.find_undefined(0, bytes); at >= 0;) {
    const std::int64_t element = at / size;
    value.valid[static_cast<std::size_t>(element)] = 0;
    const std::int64_t next = (element + 1) * size;
    at = next < bytes ? bits.find_undefined(next, bytes - next) : -1;
  }
  return value;
}

std::string place_of(const isa::Program& program, const isa::Inst& inst) {
  const std::string place = program.kernel_place(inst);
  if (!place.empty() || inst.loc.trace_line == 0) return place;
  return program.trace_file() + ":" + std::to_string(inst.loc.trace_line);
}

namespace {

Json instruction(const isa::Program& program, const isa::Inst& inst) {
  return {{"instruction", isa::spec(inst).name}, {"source", place_of(program, inst)}};
}

std::string said(const isa::Program& program, const isa::Inst& inst) {
  const std::string place = place_of(program, inst);
  return std::string(isa::spec(inst).name) + (place.empty() ? "" : " " + place);
}

std::string queue_name(const Steps::Core& core, models::QueueIndex queue) {
  if (queue < isa::kEngineCount) return std::string(isa::name(static_cast<isa::Engine>(queue)));
  return queue < core.queues.size() ? core.queues[queue] : "?";
}

std::string waited_for(const isa::Program& program, const Steps::Core& core,
                       const Steps::Part& part, WaitFor what) {
  const models::Wait& w = part.wait;
  std::string text;
  switch (what) {
    case WaitFor::kProducer:
      text = queue_name(core, w.producer);
      if (w.producer_sequence < core.steps.size()) {
        const isa::Inst* producer = core.steps[w.producer_sequence].inst;
        if (producer != nullptr) text += " (" + said(program, *producer) + ")";
      }
      return w.semaphore < 0 ? text : text + " by S[" + std::to_string(w.semaphore) + "]";
    case WaitFor::kCore:
      return "the other core";
    case WaitFor::kSemaphore:
      return "its semaphore to arrive";
    case WaitFor::kPort:
      return "a memory port that " + std::string(isa::name(w.port_holder)) + " holds";
    case WaitFor::kDataPath:
      break;
  }
  return "its own data path";
}

// An engine: what it runs, and what the next instruction waits for.
Json engine_json(const Steps& steps, const Steps::Core& core, std::size_t engine, Fs at) {
  const auto& parts = core.parts.at(engine);
  const isa::Program& program = steps.program();
  Json j = {{"engine", isa::name(static_cast<isa::Engine>(engine))},
            {"runs", nullptr},
            {"next", nullptr},
            {"waits_for", nullptr}};
  const auto next = std::upper_bound(parts.begin(), parts.end(), at,
                                     [](Fs t, const Steps::Part& p) { return t < p.start; });
  for (auto p = next; p != parts.begin();) {
    if ((--p)->end <= at) continue;
    j["runs"] = instruction(program, *p->inst);
    j["runs"]["opcode"] = program.opcode_name(p->opcode);
    j["runs"]["start_us"] = in_us(p->start);
    j["runs"]["end_us"] = in_us(p->end);
    break;
  }
  if (next == parts.end()) {
    if (steps.partial()) j["waits_for"] = "something that was not seen";
    return j;
  }
  j["next"] = instruction(program, *next->inst);
  j["next"]["start_us"] = in_us(next->start);
  j["waits_for"] = "the sequencer";
  each_wait(next->wait, next->start, isa::spec(*next->inst).rendezvous,
            [&](WaitFor what, Fs from, Fs to) {
              if (from <= at && at < to) j["waits_for"] = waited_for(program, core, *next, what);
            });
  return j;
}

Json writes_of(const isa::Program& program, const isa::Inst& inst) {
  Json writes = Json::array();
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    if (!write || ref.tensor >= program.tensors().size()) return;
    const Json operand = Json::parse(operand_json(program, ref), nullptr, false);
    writes.push_back(operand.is_string() ? operand
                                         : Json(program.tensor(ref.tensor).name + " (in part)"));
  });
  return writes;
}

}  // namespace

Json rank_json(const Steps& steps, Fs at) {
  Json engines = Json::array(), under_way = Json::array();
  std::uint64_t complete = 0, all = 0;
  for (std::size_t c = 0; c < steps.cores().size(); ++c) {
    const Steps::Core& core = steps.cores()[c];
    for (std::size_t e = 0; e < core.parts.size(); ++e) {
      if (core.parts.at(e).empty()) continue;
      Json row = {{"core", c}};
      row.update(engine_json(steps, core, e, at));
      engines.push_back(std::move(row));
    }
    for (const StepTimes& s : core.steps) {
      if (s.inst == nullptr || isa::spec(*s.inst).control != isa::OpSpec::Control::kNone) continue;
      ++all;
      complete += s.complete(at) ? 1 : 0;
      if (!s.under_way(at)) continue;
      Json row = {{"core", c}, {"engine", isa::name(s.inst->engine)}};
      row.update(instruction(steps.program(), *s.inst));
      row["start_us"] = in_us(s.start);
      row["end_us"] = s.end == kNever ? Json(nullptr) : Json(in_us(s.end));
      row["writes"] = writes_of(steps.program(), *s.inst);
      under_way.push_back(std::move(row));
    }
  }
  return {{"complete", complete},
          {"instructions", all},
          {"engines", std::move(engines)},
          {"under_way", std::move(under_way)}};
}

std::vector<std::string> writers_of(const Steps& steps, std::uint32_t tensor, Fs at) {
  std::vector<std::string> writers;
  for (const Steps::Core& core : steps.cores()) {
    for (const StepTimes& s : core.steps) {
      if (s.inst == nullptr || !s.under_way(at)) continue;
      isa::for_each_tensor(*s.inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write && ref.tensor == tensor) writers.push_back(said(steps.program(), *s.inst));
      });
    }
  }
  return writers;
}

}  // namespace nkisim::of_stop
