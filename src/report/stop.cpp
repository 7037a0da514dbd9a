// Finds the instant at which a user wants to see a run, and describes the run at it.

#include "src/report/stop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "isa/base/real.hpp"
#include "src/report/stop_parts.hpp"

namespace nkisim {
namespace of_stop {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;
using models::kNever;

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
// ---------------------------------------------------------------------

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

}  // namespace
}  // namespace of_stop

void check_stop(const StopRequest& wish, const isa::Program& program) {
  (void)of_stop::parse(wish.at);
  for (const std::string& name : wish.dump) (void)of_stop::tensor_of(program, name);
}

Stop stop_at(const StopRequest& wish, std::span<const StopRank> ranks, const isa::World& world,
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
