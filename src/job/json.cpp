// Converts jobs (descriptions of a run) to and from JSON, and outcomes to it (docs/jobs.md,
// docs/jobs_1.json).
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "compiler/options.hpp"
#include "src/job/data.hpp"

namespace nkisim {
namespace {
namespace of_json {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& field, const Json& found, const std::string& required) {
  std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  isa::fail(isa::Rule::option_value, "the job's " + field, text, required);
}

// Both ways of one field after another: each function reads from `in` or writes to `out`.
class Fields {
 public:
  explicit Fields(const Json& in) : in_(&in) {}
  Fields() = default;

  void text(const char* name, std::string& value) {
    field(name, value, std::string(), [&](const Json& j) {
      if (!j.is_string()) refuse(name, j, "a text");
      value = j.get<std::string>();
    });
  }
  void flag(const char* name, bool& value, bool normal = false) {
    field(name, value, normal, [&](const Json& j) {
      if (!j.is_boolean()) refuse(name, j, "true or false");
      value = j.get<bool>();
    });
  }
  void number(const char* name, double& value, double normal) {
    field(name, value, normal, [&](const Json& j) {
      if (!j.is_number() || !std::isfinite(j.get<double>()) || j.get<double>() < 0)
        refuse(name, j, "a number of at least 0");
      value = j.get<double>();
    });
  }
  void number(const char* name, std::optional<double>& value) {
    double own = value.value_or(-1);
    number(name, own, -1);
    if (own >= 0) value = own;
  }
  template <typename Whole>
  void whole(const char* name, std::optional<Whole>& value) {
    field(name, value.value_or(0), value ? ~*value : Whole{0}, [&](const Json& j) {
      const bool fits =
          j.is_number_unsigned() && j.get<std::uint64_t>() <= std::numeric_limits<Whole>::max();
      if (!fits) refuse(name, j, "a whole number");
      value = j.get<Whole>();
    });
  }
  void texts(const char* name, std::vector<std::string>& value) {
    field(name, value, {}, [&](const Json& j) {
      if (!j.is_array()) refuse(name, j, "a list of texts");
      for (const Json& one : j) {
        if (!one.is_string()) refuse(name, j, "a list of texts");
        value.push_back(one.get<std::string>());
      }
    });
  }
  void texts(const char* name, std::map<std::string, std::string>& value) {
    field(name, value, {}, [&](const Json& j) {
      if (!j.is_object()) refuse(name, j, "texts by name");
      for (const auto& [key, one] : j.items()) {
        if (!one.is_string()) refuse(name, j, "texts by name");
        value[key] = one.get<std::string>();
      }
    });
  }
  void any(const char* name, Json& value) {
    field(name, value, Json(nullptr), [&](const Json& j) { value = j; });
  }
  /// Throws if the object has an unknown field.
  void done() const {
    if (in_ == nullptr) return;
    for (const auto& [key, value] : in_->items()) {
      if (known_.count(key) == 0) refuse(key, value, "a field that jobs have");
    }
  }
  [[nodiscard]] Json written() const { return out_; }

 private:
  template <typename T, typename Read>
  void field(const char* name, const T& value, const T& normal, const Read& read) {
    known_[name] = true;
    if (in_ == nullptr) {
      if (value != normal) out_[name] = value;
      return;
    }
    const auto found = in_->find(name);
    if (found != in_->end() && !found->is_null()) read(*found);
  }

  const Json* in_ = nullptr;
  Json out_ = Json::object();
  std::map<std::string, bool> known_;
};

// The wish for values, time or both.
void want(const char* name, Fields& fields, Job& job) {
  std::string word = job.values ? (job.time ? "" : "values") : "time";
  fields.text(name, word);
  if (!word.empty() && word != "values" && word != "time" && word != "all")
    refuse(name, word, "all, values or time");
  job.values = word != "time";
  job.time = word != "values";
}

void each(Fields& f, Job& job) {
  f.any("id", job.id);
  f.text("trace", job.trace);
  f.text("target", job.target);
  f.text("config", job.config);
  f.texts("set", job.set);
  f.texts("switches", job.switches);
  f.flag("over_capacity", job.over_capacity);
  f.whole("ranks", job.ranks);
  std::string ring = job.ring_order == "group" ? "" : job.ring_order;
  f.text("ring_order", ring);
  job.ring_order = ring.empty() ? "group" : ring;
  f.flag("any_world", job.any_world);
  f.flag("fold", job.fold, true);
  want("want", f, job);
  f.flag("reasons", job.reasons, true);
  f.flag("full_confidence", job.full_confidence);
  f.text("recorded", job.recorded);
  f.text("inputs", job.inputs);
  f.texts("arrays", job.arrays);
  f.texts("roots", job.roots);
  f.text("outputs", job.outputs);
  f.text("output_arrays", job.output_arrays);
  f.text("expect", job.expect);
  f.flag("expect_subset", job.expect_subset);
  const Tolerance normal;
  f.number("rtol", job.tolerance.rtol, normal.rtol);
  f.number("atol", job.tolerance.atol, normal.atol);
  f.number("rel_l2", job.tolerance.rel_l2);
  f.texts("budgets", job.budgets);
  f.flag("allow_unwritten", job.allow_unwritten);
  f.flag("allow_races", job.allow_races);
  f.texts("suppress", job.rules.suppress);
  f.texts("error", job.rules.error);
  f.flag("unread", job.rules.unread);
  f.whole("stochastic_rounding", job.stochastic_rounding);
  f.text("max_time", job.most.time);
  f.text("max_instructions", job.most.instructions);
  f.text("max_memory", job.most.memory);
  f.text("stop_at", job.stop.at);
  f.texts("dump", job.stop.dump);
  f.text("dump_to", job.dump_to);
  f.text("summary_json", job.summary_json);
  f.text("html", job.html);
  f.text("accounting_json", job.reports.accounting_json);
  f.text("session", job.reports.session);
  f.text("perfetto", job.reports.perfetto);
  f.text("chrome", job.reports.chrome);
  f.text("vcd", job.reports.vcd);
  f.flag("perfetto_flows", job.reports.flows);
}

Json to_json(const Comparison& row) {
  return {{"output", row.tensor},
          {"equal", row.equal},
          {"elements", row.elements},
          {"mismatches", row.mismatches},
          {"max_abs_error", row.max_abs_error},
          {"max_rel_error", row.max_rel_error},
          {"rel_l2", row.rel_l2},
          {"first", row.first},
          {"worst", row.worst},
          {"got", row.got},
          {"expected", row.expected}};
}

Json to_json(const Recorded& facts) {
  Json j = {{"api", facts.legacy ? "neuronxcc" : "nki"}, {"instructions", facts.instructions},
            {"constant_bytes", facts.constant_bytes},    {"cores", facts.cores},
            {"sdk", "2." + std::to_string(facts.sdk)},   {"inputs", Json::array()}};
  for (const BoundInput& i : facts.inputs) {
    j["inputs"].push_back({{"key", i.key},
                           {"tensor", i.tensor},
                           {"written", i.written},
                           {"dtype", i.dtype},
                           {"shape", i.shape}});
  }
  return j;
}

// The members that the object of a rank shares with that of a run of one rank.
void put_values(const Outcome::Rank& rank, Json& out) {
  if (!rank.not_compared.empty()) out["not_compared"] = rank.not_compared;
  if (!rank.outputs.empty()) out["outputs"] = Json::array();
  for (const Comparison& row : rank.outputs) out["outputs"].push_back(to_json(row));
  for (const auto& [tensor, file] : rank.files) out["files"][tensor] = file;
}

Json rank_json(const Outcome& out, const Outcome::Rank& rank) {
  Json j = {{"instructions", rank.instructions}};
  if (out.timed) {
    j["summary"] = rank.summary;
    j["latency_us"] = rank.latency_us;
  }
  put_values(rank, j);
  j["timed_as"] = rank.timed_as;
  j["values_of"] = rank.values_of;
  return j;
}

void put_peaks(const Outcome& out, Json& j) {
  for (const compiler::MemoryPeak& p : out.peaks) {
    j["peaks"].push_back({{"core", p.core},
                          {"space", p.space == isa::Space::kSbuf ? "SBUF" : "PSUM"},
                          {"partition_bytes", p.bytes}});
  }
}

}  // namespace of_json
}  // namespace

Job job_of(const nlohmann::ordered_json& json) {
  using of_json::refuse;
  if (!json.is_object()) refuse("line", json, "a JSON object");
  nlohmann::ordered_json fields = json;
  const auto version = fields.find("nkisim_job");
  if (version == fields.end() || *version != Job::kVersion)
    refuse("nkisim_job", version == fields.end() ? nlohmann::ordered_json() : *version,
           std::to_string(Job::kVersion));
  fields.erase("nkisim_job");
  Job job;
  of_json::Fields reader(fields);
  of_json::each(reader, job);
  reader.done();
  if (job.trace.empty()) refuse("trace", job.trace, "the name of a file");
  for (const auto& [name, choice] : job.switches) {
    bool known = false;
    for (const compiler::Switch& s : compiler::switches()) {
      known = known || (s.name == name && s.stage != compiler::Switch::Stage::kRecording);
    }
    if (!known) refuse("switches", name, "a switch that a trace can follow");
  }
  return job;
}

nlohmann::ordered_json to_json(const Job& job) {
  of_json::Fields writer;
  Job copy = job;
  of_json::each(writer, copy);
  nlohmann::ordered_json out = {{"nkisim_job", Job::kVersion}};
  out.update(writer.written());
  return out;
}

nlohmann::ordered_json to_json(Outcome out) {
  nlohmann::ordered_json j = {{"ok", out.exit_code == kOk}, {"exit_code", out.exit_code}};
  if (!out.error.is_null()) {
    j["error"] = out.error;
  } else {
    const bool alone = out.ranks.size() == 1;
    j["partial"] = out.partial;
    j["target"] = out.target;
    if (alone) j["instructions"] = out.ranks.front().instructions;
    if (!out.stopped_by.empty()) j["stopped_by"] = out.stopped_by;
    if (out.recorded) j["recorded"] = of_json::to_json(*out.recorded);
    if (!alone) {
      j["ranks"] = nlohmann::ordered_json::array();
      for (const Outcome::Rank& r : out.ranks) j["ranks"].push_back(of_json::rank_json(out, r));
    } else if (out.timed) {
      j["summary"] = std::move(out.ranks.front().summary);
    }
    if (out.timed) {
      for (auto& [key, value] : out.totals.items()) j[key] = std::move(value);
    }
    if (!out.confidence.is_null()) j["confidence"] = std::move(out.confidence);
    of_json::put_peaks(out, j);
    if (alone) of_json::put_values(out.ranks.front(), j);
    for (const BudgetResult& b : out.budgets) j["budgets"].push_back(to_json(b));
    if (!out.stop.is_null()) j["stop"] = out.stop;
  }
  if (!out.warnings.empty()) j["warnings"] = out.warnings;
  if (!out.printed.empty()) j["printed"] = out.printed;
  if (!out.id.is_null()) j["id"] = out.id;
  j["nkisim_outcome"] = Outcome::kVersion;
  return j;
}

}  // namespace nkisim
