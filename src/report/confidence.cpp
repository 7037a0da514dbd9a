// Weighs the sources of the rates behind a simulated latency, and gives reasons.

#include "src/report/confidence.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/report/totals.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;

constexpr std::size_t kNamed = 3;    // in a reason
constexpr double kMentioned = 0.05;  // of the busy time
constexpr double kMatters = 0.05;    // a change of the latency that is said
constexpr double kCoverage = 0.8;    // of the measurements that a config's spread holds
constexpr std::string_view kPackets = "packet";

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", share * 100);
  return text.data();
}

std::string microseconds(double us) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", us);
  return text.data();
}

double share(Fs part, Fs all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

// "1.2 us less to 3.4 us more"
std::string range(const OpenTime& time) {
  const std::string less = microseconds(models::to_ns(time.sooner) / 1000) + " us less",
                    more = microseconds(models::to_ns(time.later) / 1000) + " us more";
  if (time.sooner == 0) return "up to " + more;
  return time.later == 0 ? "up to " + less : "up to " + less + " and " + more;
}

bool range_matters(const OpenTime& time, double us) {
  return models::to_ns(time.sooner + time.later) / 1000 > kMentioned * us;
}

std::string_view kind_of(const ProgramOrigin& origin) {
  if (!origin.kernel) return "trace";
  return origin.legacy ? "neuronxcc" : "nki";
}

std::string about(const ProgramOrigin& origin) {
  if (!origin.kernel) return "a trace: nothing is left to the compiler";
  return origin.legacy
             ? "a kernel of the legacy API, which leaves nearly everything to the compiler"
             : "a kernel, whose compiler is imitated";
}

const models::Calibrated* find(const models::Config& config, std::string_view target,
                               std::string_view unit, std::string_view opcode) {
  const auto it = std::find_if(
      config.calibrated.begin(), config.calibrated.end(), [&](const models::Calibrated& c) {
        return (target.empty() || c.target == target) && c.unit == unit && c.opcode == opcode;
      });
  return it == config.calibrated.end() ? nullptr : &*it;
}

// The compiler's switches that would change the latency by more than kMatters.
Json switches(const ProgramOrigin& origin, double us, Json& reasons) {
  if (!origin.switches) return nullptr;
  const SwitchRuns& tried = *origin.switches;
  if (!tried.why_not.empty()) {
    reasons.push_back("the compiler's switches were not tried: " + tried.why_not);
    return {{"tried", 0}, {"why_not", tried.why_not}};
  }
  Json matter = Json::array(), refused = Json::array();
  std::string text;
  for (const SwitchRun& run : tried.runs) {
    if (!run.error.empty()) {
      refused.push_back({{"switch", run.name}, {"choice", run.choice}, {"error", run.error}});
    } else if (std::abs(run.change) > kMatters) {
      if (matter.size() < kNamed) {
        text += (text.empty() ? "" : ", ") + run.name + "=" + run.choice +
                (run.change > 0 ? " +" : " ") + percent(run.change);
      }
      matter.push_back({{"switch", run.name},
                        {"choice", run.choice},
                        {"latency_us", us * (1 + run.change)},
                        {"change", run.change}});
    }
  }
  reasons.push_back(text.empty() ? "no switch of the compiler's changes it by more than 5 %"
                                 : "other choices of the compiler's would change it: " + text);
  Json j = {{"tried", tried.runs.size()}};
  j["matter"] = std::move(matter);
  j["refused"] = std::move(refused);
  return j;
}

bool exceeds_memory(const isa::Program& program) {
  const isa::Machine& m = program.machine();
  return std::any_of(program.tensors().begin(), program.tensors().end(), [&](const auto& t) {
    if (t.space == isa::Space::kHbm || program.virtual_addresses()) return false;
    const std::int64_t spare =
        t.space == isa::Space::kSbuf ? m.sbuf_partition_bytes : m.psum_partition_bytes;
    return t.address + t.extent_bytes() > spare;
  });
}

}  // namespace

ProgramOrigin origin_of(const TraceFile& trace, const compiler::Compiled& done) {
  ProgramOrigin origin{.kernel = trace.recorded,
                       .legacy = trace.legacy,
                       .over_capacity = exceeds_memory(*trace.program)};
  for (const auto& step : done.steps) origin.passes.emplace_back(step.pass, step.changed);
  return origin;
}

void Confidence::Use::add(Basis basis, std::int64_t size, Fs time_used) {
  time.at(basis) += time_used;
  least = used ? std::min(least, size) : size;
  most = used ? std::max(most, size) : size;
  used = true;
}

Confidence::Use Confidence::sampled(std::string_view unit, std::string_view opcode) const {
  const std::string_view target = isa::first_target(program_->machine().generation);
  Use use;
  use.own = find(*config_, target, unit, opcode);
  use.other = use.own == nullptr && find(*config_, {}, unit, opcode) != nullptr;
  return use;
}

bool Confidence::doubtful(isa::Unit unit, std::string_view opcode) const {
  return std::any_of(config_->rules.begin(), config_->rules.end(), [&](const models::CostRule& r) {
    return r.unit == unit && (r.assumed || r.documented) &&
           std::any_of(r.opcodes.begin(), r.opcodes.end(),
                       [&](const std::string& o) { return o == "*" || o == opcode; });
  });
}

Confidence::Basis Confidence::basis_of(const Use& use, std::int64_t size) {
  if (use.own != nullptr) {
    return size >= use.own->least && size <= use.own->most ? kSampled : kExtrapolated;
  }
  return use.other ? kOtherChip : kExtrapolated;
}

void Confidence::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = &config;
  few_.start(program, config);
  repeated_.start(program, config);
  costs_ = std::make_unique<models::CostTable>(config, program);
  cache_ = std::make_unique<models::CostCache>(*costs_);
  cores_ = program.cores();
  uses_.assign(program.opcode_count(), {});
  busy_until_.clear();
  uneven_.clear();
  packets_ = sampled("DMA", kPackets);
}

// Creates the use of an opcode when it is first asked for: most opcodes never are.
Confidence::Use& Confidence::use_of(const isa::Part& part) {
  Use& use = uses_[static_cast<std::size_t>(part.opcode)][static_cast<std::size_t>(part.unit)];
  if (!use.used) {
    const std::string_view opcode = program_->opcode_name(part.opcode);
    use = sampled(isa::name(part.unit), opcode);
    use.doubtful = doubtful(part.unit, opcode);
  }
  return use;
}

void Confidence::on_event(const models::PartEvent& event) {
  if (event.part == nullptr || event.kind == models::PartKind::kDmaTrigger) return;
  const isa::Part& part = *event.part;
  few_.add(event);
  Use& use = use_of(part);
  Basis basis = basis_of(use, part.elements);
  if (use.doubtful) {  // only then it matters which rule decides
    const models::CostRule& rule = *cache_->cost(part).rule;
    if (rule.assumed) {
      basis = kAssumed;
    } else if (rule.documented && basis != kSampled) {
      basis = kDocumented;
    }
  }
  use.add(basis, part.elements, event.end - event.start);
}

void Confidence::on_event(const models::DmaLaneEvent& event) {
  const auto engines = static_cast<std::size_t>(std::max(1, config_->dma.engines));
  const std::size_t lane =
      static_cast<std::size_t>(event.core) * engines + static_cast<std::size_t>(event.engine);
  if (lane >= busy_until_.size()) busy_until_.resize(lane + 1);
  // Queues share an engine: what is new of this stretch.
  const Fs from = std::max(event.start, busy_until_[lane]);
  busy_until_[lane] = std::max(event.end, busy_until_[lane]);
  packets_.add(basis_of(packets_, event.packet_bytes), event.packet_bytes,
               std::max<Fs>(0, event.end - from) / engines);
}

// A kernel with such loads takes as long as words one after the other, and it is not known why.
void Confidence::on_event(const models::DmaEvent& event) {
  few_.add(event);
  repeated_.add(event);
  const isa::DmaWork& work = *event.work;
  if (!work.uneven || !work.dynamic || work.src != isa::Space::kHbm) return;
  const auto core = static_cast<std::size_t>(event.core);
  if (core >= uneven_.size()) uneven_.resize(core + 1);
  constexpr std::int64_t kWord = 4;
  uneven_[core] +=
      work.bytes / kWord * config_->dma.uneven_word / std::max(1, config_->dma.engines);
}

Json Confidence::rates(Fs all) const {
  struct Row {
    Fs time;
    Json json;
  };
  std::vector<Row> rows;
  const auto put = [&](const Use& use, std::string_view unit, std::string_view opcode) {
    if (!use.used) return;
    constexpr std::array<const char*, kBases> kNames = {"measured", "documented", "extrapolated",
                                                        "other_generation", "assumed"};
    Fs time = 0;
    Json bases = Json::object();
    for (std::size_t b = 0; b < kBases; ++b) {
      time += use.time.at(b);
      if (use.time.at(b) > 0) bases[kNames.at(b)] = share(use.time.at(b), all);
    }
    Json row = {{"unit", unit}, {"opcode", opcode}, {"share", share(time, all)}};
    row["basis"] = std::move(bases);
    row["sizes"] = {use.least, use.most};
    if (use.own != nullptr) row["measured_sizes"] = {use.own->least, use.own->most};
    rows.push_back({time, std::move(row)});
  };
  for (std::size_t op = 0; op < uses_.size(); ++op) {
    for (std::size_t u = 0; u < uses_[op].size(); ++u) {
      put(uses_[op][u], isa::name(static_cast<isa::Unit>(u)),
          program_->opcode_name(static_cast<isa::Opcode>(op)));
    }
  }
  put(packets_, "DMA", kPackets);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
  Json list = Json::array();
  for (Row& row : rows) list.push_back(std::move(row.json));
  return list;
}

double Confidence::busiest_us() const {
  std::array<Fs, isa::kUnitCount> busy{};
  for (const auto& units : uses_) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (const Fs time : units[u].time) busy.at(u) += time;
    }
  }
  return models::to_ns(*std::max_element(busy.begin(), busy.end())) / 1000 / cores_;
}

Confidence::Open Confidence::open(const ProgramOrigin& origin, double us, Json& reasons) const {
  const auto longest = std::max_element(uneven_.begin(), uneven_.end());
  const double doubt = longest == uneven_.end() ? 0 : models::to_ns(*longest) / 1000;
  if (doubt > 0) {
    reasons.insert(
        reasons.begin() + 1,
        "loads at run-time addresses whose rows lie unevenly in SBUF: the one such kernel "
        "measured takes unexplained time, up to " +
            microseconds(doubt) + " us here");
  }
  double repeated = 0;  // what the loads that were left out would have taken, one after the other
  for (const auto& [pass, changed] : origin.passes) {
    if (pass != "share" || kind_of(origin) != "nki" || changed == 0) continue;
    repeated =
        static_cast<double>(changed) * models::to_ns(config_->dma.software.interval_base) / 1000;
    reasons.insert(reasons.begin() + 1,
                   std::to_string(changed) +
                       " loads that repeat are done once, by a rule of two kernels: up to " +
                       microseconds(repeated) + " us more without it");
  }
  const FewPoints::Found few = few_.found();
  OpenTime all = few.time;
  all.add(few.limit);
  if (range_matters(few.limit, us)) {
    reasons.insert(
        reasons.begin() + 1,
        "products of sizes between those measured, where the PE array's limit may hold or "
        "not: " +
            range(few.limit));
  }
  if (range_matters(few.time, us)) {
    std::string names;
    const std::vector<std::string> known = few_.names(few.core);
    for (std::size_t i = 0; i < std::min(known.size(), kNamed); ++i) {
      names += (i == 0 ? "" : ", ") + known[i];
    }
    reasons.insert(reasons.begin() + 1, "fewer than three measurements give " + names + ": " +
                                            range(few.time) + " without");
  }
  const double sooner = models::to_ns(all.sooner) / 1000, later = models::to_ns(all.later) / 1000;
  double low = std::max(us - sooner, us * few.least);
  const RepeatedLoads::Found again = repeated_.found();
  if (kind_of(origin) == "nki" && again.loads > 0) {
    const double once =
        std::max(low - models::to_ns(again.time) / 1000, std::min(low, busiest_us()));
    if (low - once > kMentioned * us) {
      reasons.insert(reasons.begin() + 1, std::to_string(again.loads) +
                                              " loads repeat what their statement loaded: up to " +
                                              microseconds(low - once) +
                                              " us less where the compiler does them once");
    }
    low = once;
  }
  return {low, std::min(us + later, us * few.most) + doubt + repeated};
}

Json Confidence::interval(const ProgramOrigin& origin, double us, double uncertain,
                          Json& reasons) const {
  const auto spread =
      std::find_if(config_->spreads.begin(), config_->spreads.end(),
                   [&](const models::Spread& s) { return s.kind == kind_of(origin); });
  if (spread == config_->spreads.end() || spread->low <= 0) return nullptr;
  const std::string_view target = isa::first_target(program_->machine().generation);
  const bool measured =
      std::find(spread->targets.begin(), spread->targets.end(), target) != spread->targets.end();
  if (!measured) {
    reasons.push_back("no latency of such a run is published for " + std::string(target) +
                      ": how many are within the interval is not known");
  }
  const double wider = 1 + spread->widening * uncertain;
  const Open without = open(origin, us, reasons);
  Json j = {{"low_us", without.low_us * std::pow(spread->low, wider)},
            {"high_us", without.high_us * std::pow(spread->high, wider)},
            {"coverage", measured ? Json(kCoverage) : Json(nullptr)}};
  if (spread->versions > 0) j["versions"] = spread->versions;
  j["without"] = {{"low_us", without.low_us}, {"high_us", without.high_us}};
  return j;
}

Json Confidence::json(const ProgramOrigin& origin, const Summary& summary) const {
  std::array<Fs, kBases> time{};
  const auto count = [&time](const Use& use) {
    for (std::size_t b = 0; b < kBases; ++b) time.at(b) += use.time.at(b);
  };
  for (const auto& units : uses_) std::for_each(units.begin(), units.end(), count);
  count(packets_);
  Fs all = 0;
  for (const Fs t : time) all += t;
  Json reasons = Json::array({about(origin)});
  const double us = in_seconds(latency(summary)) * 1e6;
  Json effects = switches(origin, us, reasons);
  const double extrapolated = share(time[kExtrapolated], all), other = share(time[kOtherChip], all),
               assumed = share(time[kAssumed], all);
  double uncertain = extrapolated + other + assumed;
  Json j = {{"origin", kind_of(origin)}};
  Json passes = Json::object();
  for (const auto& [pass, changed] : origin.passes) {
    if (changed > 0) passes[pass] = changed;
  }
  j["compiler"] = std::move(passes);
  j["over_capacity"] = origin.over_capacity;
  j["shares"] = {{"measured", share(time[kSampled], all)},
                 {"documented", share(time[kDocumented], all)},
                 {"extrapolated", extrapolated},
                 {"other_generation", other},
                 {"assumed", assumed}};
  j["rates"] = rates(all);
  const auto say = [&reasons](double part, const std::string& text) {
    if (part >= kMentioned) reasons.push_back(percent(part) + " of the busy time " + text);
  };
  say(extrapolated, "is instructions or sizes beyond those measured");
  say(other, "is at rates measured on another generation");
  say(assumed, "is at assumed rates");
  if (origin.over_capacity) {
    reasons.push_back("the tiles exceed the memory: a device would spill or refuse");
    uncertain = 1;
  }
  // The pair of a logical core is measured with kernels of the new API.
  const bool pair = cores_ == 2 && kind_of(origin) == "nki";
  if ((cores_ > 1 && !pair) || !origin.alone) {
    reasons.push_back(
        "several cores or ranks: no latency of such a kernel is in the interval's data");
    uncertain = 1;
  }
  j["uncertain"] = uncertain;
  j["interval"] = interval(origin, us, uncertain, reasons);
  j["switches"] = std::move(effects);
  j["reasons"] = std::move(reasons);
  j["text"] = line(j);
  return j;
}

std::string Confidence::line(const Json& json) {
  std::string text = json["reasons"][0].get<std::string>();
  for (std::size_t i = 1; i < std::min(json["reasons"].size(), kNamed); ++i) {
    text += "; " + json["reasons"][i].get<std::string>();
  }
  const Json& interval = json["interval"];
  if (interval.is_null()) return "no interval (" + text + ")";
  std::array<char, 96> range{};
  std::snprintf(range.data(), range.size(), "%.4g to %.4g us", interval["low_us"].get<double>(),
                interval["high_us"].get<double>());
  return range.data() + std::string(interval["coverage"].is_null() ? "" : " in 4 of 5 cases") +
         " (" + text + ")";
}

}  // namespace nkisim
