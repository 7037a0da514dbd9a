#include "src/report/stop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "isa/base/nearest.hpp"
#include "isa/base/real.hpp"
#include "src/report/waits.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {
namespace of_stop {

using Json = nlohmann::ordered_json;
using models::Fs;
using models::kNever;

constexpr double kFsPerUs = 1e9;

double in_us(Fs time) { return static_cast<double>(time) / kFsPerUs; }

// ---- where
// ---------------------------------------------------------------------------------------
struct Place {
  std::string file;
  std::uint32_t line = 0;
  std::uint64_t execution = 1;
};

struct Where {
  std::optional<Fs> time = {};
  Place place = {};
};

std::optional<std::uint64_t> whole(std::string_view text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos)
    return {};
  return std::stoull(std::string(text));
}

std::optional<Fs> time_in(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 5> kUnits = {
      {{"s", 1e15}, {"ms", 1e12}, {"us", 1e9}, {"ns", 1e6}, {"ps", 1e3}}};
  double value = 0;
  const auto [end, ec] = isa::read_real(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, factor] : kUnits) {
    const bool good = ec == std::errc{} && unit == name && value >= 0 && value * factor < 0x1p62;
    if (good) return static_cast<Fs>(std::llround(value * factor));
  }
  return {};
}

Where parse(const std::string& text) {
  if (const auto time = time_in(text)) return {.time = time};
  const std::size_t hash = std::min(text.rfind('#'), text.size());
  const std::size_t colon = text.rfind(':', hash);
  if (colon != text.npos && colon > 0) {
    const auto line = whole(std::string_view(text).substr(colon + 1, hash - colon - 1));
    const auto execution = hash == text.size() ? std::optional<std::uint64_t>(1)
                                               : whole(std::string_view(text).substr(hash + 1));
    if (line && execution && *execution > 0) {
      return {.place = {text.substr(0, colon), static_cast<std::uint32_t>(*line), *execution}};
    }
  }
  isa::fail(isa::Rule::option_value, "stop-at", text,
            "a time such as 12.3us, or FILE:LINE#N, execution N of an instruction of a line,");
}

bool ends_with_file(const std::string& path, const std::string& file) {
  return path == file || path.ends_with("/" + file);
}

bool of_place(const isa::Inst& inst, const isa::Program& program, const Place& place) {
  const isa::SourceLoc& loc = inst.loc;
  if (loc.kernel_line == place.line && loc.kernel_file > 0 &&
      loc.kernel_file <= program.files().size() &&
      ends_with_file(program.files()[loc.kernel_file - 1], place.file)) {
    return true;
  }
  return loc.trace_line == place.line && loc.trace_line > 0 &&
         ends_with_file(program.trace_file(), place.file);
}

// When the place's execution is complete: on the first core that comes to the line at all.
Fs time_of(const Place& place, const std::string& text, const Steps& steps) {
  std::uint64_t seen = 0;
  for (const Steps::Core& core : steps.cores()) {
    for (const StepTimes& s : core.steps) {
      if (s.inst == nullptr || !of_place(*s.inst, steps.program(), place)) continue;
      if (++seen < place.execution) continue;
      if (s.end != kNever) return s.end;
      isa::fail(isa::Rule::option_value, "stop-at", text + ", which the run does not complete",
                "an instruction that is complete in the end");
    }
    if (seen > 0) break;
  }
  isa::fail(isa::Rule::option_value, "stop-at",
            text + ", of a line whose instructions are executed " + std::to_string(seen) + " times",
            seen == 0 ? "a line of the program" : "at most #" + std::to_string(seen));
}

// ---- which steps take effect
// --------------------------------------------------------------------- Of one rank, by core and
// step.
using Effects = std::vector<std::vector<isa::StepEffect>>;

std::set<std::int64_t> ended_collectives(std::span<const StopRank> ranks, Fs at) {
  std::set<std::int64_t> ended;
  for (const StopRank& rank : ranks) {
    for (const Steps::Core& core : rank.steps->cores()) {
      for (const StepTimes& s : core.steps) {
        if (s.collective >= 0 && s.complete(at)) ended.insert(s.collective);
      }
    }
  }
  return ended;
}

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

// Executes it. Nothing is said of it: what an instruction prints belongs to the run.
void execute(std::span<const StopRank> ranks, const std::vector<Effects>& effects,
             const isa::World& world, std::vector<std::unique_ptr<isa::Memory>>& memories) {
  std::vector<isa::RankRun> runs;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    isa::InterpretOptions options;
    options.conditions = {.unwritten = ranks[r].conditions.unwritten,
                          .rules = isa::RulePolicy({.warn = {"undefined_value"}}),
                          .stochastic_rounding = ranks[r].conditions.stochastic_rounding};
    options.world = world;
    options.effect = [&own = effects[r]](int core, std::uint64_t step) {
      const auto& steps = own[static_cast<std::size_t>(core)];
      return step < steps.size() ? steps[step] : isa::StepEffect::kEnd;
    };
    runs.push_back({&ranks[r].steps->program(), memories[r].get(), options});
  }
  if (runs.size() == 1) {
    isa::interpret(*runs.front().program, *runs.front().memory, runs.front().options);
  } else {
    isa::interpret_world(runs, world);
  }
}

// ---- values
// --------------------------------------------------------------------------------------
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

// ---- who does what
// -------------------------------------------------------------------------------
std::string place_of(const isa::Program& program, const isa::Inst& inst) {
  const std::string place = program.kernel_place(inst);
  if (!place.empty() || inst.loc.trace_line == 0) return place;
  return program.trace_file() + ":" + std::to_string(inst.loc.trace_line);
}

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

// ---- values as JSON
// ------------------------------------------------------------------------------
std::vector<double> numbers_of(const StopValue& value) {
  const std::size_t count = value.valid.size();
  const bool wide = isa::is_integer(value.dtype) && isa::size_bytes(value.dtype) == 4;
  std::vector<double> numbers;
  if (wide) {
    std::vector<std::uint32_t> bits(count);
    isa::decode_bits(value.dtype, value.bytes.data(), count, bits.data());
    for (const std::uint32_t b : bits) {
      numbers.push_back(value.dtype == isa::Dtype::kInt32 ? static_cast<std::int32_t>(b) : b);
    }
    return numbers;
  }
  std::vector<float> reals(isa::is_packed(value.dtype) ? 4 * count : count);
  isa::decode(value.dtype, value.bytes.data(), count, reals.data());
  return {reals.begin(), reals.end()};
}

// JSON has no NaN and no infinity: texts stand for them.
Json number_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

Json value_json(const StopValue& value) {
  const auto has = static_cast<std::size_t>(std::count(value.valid.begin(), value.valid.end(), 1));
  Json j = {{"dtype", isa::name(value.dtype)},
            {"shape", value.shape},
            {"valid", has},
            {"elements", value.valid.size()},
            {"under_way", value.writers}};
  if (value.valid.size() > kStopElements) return j;
  j["values"] = Json::array();
  const std::vector<double> numbers = numbers_of(value);
  const std::size_t each = numbers.size() / std::max<std::size_t>(1, value.valid.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    j["values"].push_back(value.valid[i / each] != 0 ? number_json(numbers[i]) : Json(nullptr));
  }
  return j;
}

}  // namespace of_stop
}  // namespace

void check_stop(const StopWish& wish, const isa::Program& program) {
  (void)of_stop::parse(wish.at);
  for (const std::string& name : wish.dump) (void)of_stop::tensor_of(program, name);
}

Stop stop_at(const StopWish& wish, std::span<const StopRank> ranks, const isa::World& world,
             const FreshMemories& fresh) {
  using namespace of_stop;
  const Where where = parse(wish.at);
  const Steps& first = *ranks.front().steps;
  Stop stop{.time = where.time ? *where.time : time_of(where.place, wish.at, first)};
  std::vector<Effects> effects;
  const std::set<std::int64_t> collectives = ended_collectives(ranks, stop.time);
  for (const StopRank& rank : ranks) {
    stop.ranks.push_back(rank_json(*rank.steps, stop.time));
    effects.push_back(effects_of(*rank.steps, stop.time, collectives));
  }
  if (!fresh || wish.dump.empty()) return stop;
  std::vector<std::unique_ptr<isa::Memory>> memories = fresh();
  std::vector<std::vector<std::uint32_t>> ids(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const std::string& name : wish.dump) {
      ids[r].push_back(tensor_of(ranks[r].steps->program(), name));
    }
    memories[r]->keep(ids[r]);
  }
  execute(ranks, effects, world, memories);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto& own = stop.values.emplace_back();
    for (const std::uint32_t id : ids[r]) {
      own.push_back(
          value_of(ranks[r].steps->program(), id, *memories[r], ranks[r].conditions.unwritten));
      own.back().writers = writers_of(*ranks[r].steps, id, stop.time);
    }
  }
  return stop;
}

nlohmann::ordered_json to_json(const Stop& stop) {
  nlohmann::ordered_json j = {{"at_us", of_stop::in_us(stop.time)}, {"ranks", stop.ranks}};
  for (std::size_t r = 0; r < stop.values.size(); ++r) {
    nlohmann::ordered_json& values = j["ranks"][r]["values"];
    for (const StopValue& v : stop.values[r]) values[v.name] = of_stop::value_json(v);
  }
  return j;
}

void write_values(const std::string& file, const std::vector<StopValue>& values) {
  std::vector<std::pair<std::string, NpyArray>> arrays;
  for (const StopValue& v : values) {
    arrays.emplace_back(v.name, make_array(v.dtype, v.shape, v.bytes));
    if (std::find(v.valid.begin(), v.valid.end(), 0) == v.valid.end()) continue;
    NpyArray valid{.descr = "|b1", .shape = v.shape, .data = {}};
    for (const std::uint8_t one : v.valid) valid.data.push_back(static_cast<std::byte>(one));
    arrays.emplace_back(v.name + ".valid", std::move(valid));
  }
  write_npz(file, arrays);
}

}  // namespace nkisim
