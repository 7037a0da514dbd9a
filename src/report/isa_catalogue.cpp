// Writes the table of all instructions as JSON, Markdown and text.

#include "src/report/isa_catalogue.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using isa::Generation;
using isa::OpSpec;
using isa::Param;
using Json = nlohmann::ordered_json;

const std::vector<std::string>& api_functions() {
  static const std::vector<std::string> kNames = {
#define NKISIM_API(function) #function,
#include "isa/api.def"
#undef NKISIM_API
  };
  return kNames;
}

std::vector<std::string> space_names(isa::Spaces spaces) {
  std::vector<std::string> names;
  for (isa::Space s : {isa::Space::kHbm, isa::Space::kSbuf, isa::Space::kPsum}) {
    if (spaces.contains(s)) names.emplace_back(isa::name(s));
  }
  return names;
}

std::vector<std::string> dtype_names(isa::Dtypes dtypes) {
  std::vector<std::string> names;
  for (int i = 0; i < isa::kDtypeCount; ++i) {
    const auto d = static_cast<isa::Dtype>(i);
    if (dtypes.contains(d)) names.emplace_back(isa::name(d));
  }
  return names;
}

bool available(const OpSpec& op, Generation generation) {
  return generation >= op.since && (!op.until || generation <= *op.until);
}

// True if other cores wait for it, or if what it does is not in its operands alone.
bool acts_elsewhere(const OpSpec& op) {
  const bool writes = std::any_of(op.params.begin(), op.params.end(),
                                  [](const Param& p) { return isa::is_written(p.kind); });
  return op.rendezvous || op.raw || (op.state == OpSpec::State::kAlways && !writes);
}

Json param_json(const Param& param) {
  Json j = {
      {"name", param.name}, {"kind", traits(param.kind).catalogue}, {"optional", param.optional}};
  if (traits(param.kind).holds_tensors()) {
    j["spaces"] = space_names(param.spaces);
    j["dtypes"] = dtype_names(param.dtypes);
  }
  if (!param.choices.empty()) j["choices"] = param.choices;
  if (!param.doc.empty()) j["doc"] = param.doc;
  return j;
}

std::string join(const std::vector<std::string>& items, const std::string& separator) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : separator) + item;
  return text;
}

std::string engines_text(const OpSpec& op, std::optional<Generation> generation) {
  std::vector<std::string> names;
  for (const isa::EngineRule& rule : op.engines) {
    if (generation && *generation < rule.since) continue;
    std::string text(isa::name(rule.engine));
    if (!generation && rule.since > op.since)
      text += " (" + std::string(isa::first_target(rule.since)) + "+)";
    names.push_back(text);
  }
  return join(names, ", ");
}

std::string dtypes_text(isa::Dtypes dtypes) {
  const auto names = dtype_names(dtypes);
  if (names == dtype_names(isa::kAnyDtype)) return "any dtype";
  if (names == dtype_names(isa::kMovedDtypes)) return "any dtype, int64 too";
  if (names == dtype_names(isa::kComputeDtypes)) return "any compute dtype";
  return join(names, ", ");
}

void markdown_op(const OpSpec& op, std::ostringstream& out) {
  out << "\n## " << op.name << "\n\n" << op.doc << "\n\n";
  out << "| | |\n|---|---|\n| Engines | " << engines_text(op, {}) << " |\n| Targets | ";
  std::vector<std::string> targets;
  for (const std::string& t : coverage_targets()) {
    if (available(op, isa::find_machine(t)->generation)) targets.push_back(t);
  }
  out << join(targets, ", ") << " |\n| Opcode | " << isa::name(op.opcode) << " |\n| Semantics | `"
      << op.semantics << "` |\n| Cost | " << op.cost << " |\n| Sources | " << op.sources << " |\n";
  if (op.params.empty()) return;
  out << "\n| Parameter | Kind | Where | Dtypes | Notes |\n|---|---|---|---|---|\n";
  for (const Param& p : op.params) {
    std::string notes(p.doc);
    if (p.optional) notes = notes.empty() ? "optional" : "optional; " + notes;
    if (!p.choices.empty()) {
      notes += (notes.empty() ? "" : "; ") + join({p.choices.begin(), p.choices.end()}, " / ");
    }
    const bool tensor = traits(p.kind).holds_tensors();
    out << "| `" << p.name << "` | " << traits(p.kind).catalogue << " | "
        << (tensor ? join(space_names(p.spaces), ", ") : "") << " | "
        << (tensor ? dtypes_text(p.dtypes) : "") << " | " << notes << " |\n";
  }
}

}  // namespace

Json op_json(const OpSpec& op) {
  Json j = {{"name", op.name},
            {"doc", op.doc},
            {"semantics", op.semantics},
            {"cost", op.cost},
            {"sources", op.sources},
            {"opcode", isa::name(op.opcode)},
            {"since", isa::first_target(op.since)}};
  if (op.until) j["until"] = isa::first_target(*op.until);
  if (op.control != OpSpec::Control::kNone) j["control"] = true;
  if (acts_elsewhere(op)) j["acts_elsewhere"] = true;
  j["engines"] = Json::array();
  for (const isa::EngineRule& rule : op.engines) {
    j["engines"].push_back(
        {{"engine", isa::name(rule.engine)}, {"since", isa::first_target(rule.since)}});
  }
  j["params"] = Json::array();
  for (const Param& param : op.params) j["params"].push_back(param_json(param));
  return j;
}

std::string catalogue_json() {
  Json j;
  j["generated_by"] = "nkisim isa --json";
  j["instructions"] = Json::array();
  for (const OpSpec* op : isa::op_table()) j["instructions"].push_back(op_json(*op));
  j["dtypes"] = dtype_names(isa::kAnyDtype);
  for (int i = 0; i < isa::kDtypeCount; ++i) {
    const auto d = static_cast<isa::Dtype>(i);
    j["dtype_bytes"][std::string(isa::name(d))] = isa::size_bytes(d);
  }
  j["alu"] = Json::array();
  for (int i = 0; i < isa::kAluOpCount; ++i) {
    const auto& t = isa::traits(static_cast<isa::AluOp>(i));
    j["alu"].push_back({{"name", t.name}, {"aliases", t.aliases}, {"doc", t.doc}});
  }
  j["activation"] = Json::array();
  for (int i = 0; i < isa::kActFnCount; ++i) {
    const auto& t = isa::traits(static_cast<isa::ActFn>(i));
    j["activation"].push_back({{"name", t.name}, {"aliases", t.aliases}, {"doc", t.doc}});
  }
  return j.dump(1) + "\n";
}

std::string catalogue_markdown() {
  std::ostringstream out;
  out << "# Instructions\n\nMade by `nkisim isa --markdown` of the instruction table in "
         "`isa/ops/`.\n\n"
         "P is the number of partitions, N the elements per partition. Cost formulas are in cycles "
         "of the executing engine as the sources state them; the rates in use are in `configs/`.\n";
  for (const OpSpec* op : isa::op_table()) markdown_op(*op, out);
  return out.str();
}

std::string op_text(const OpSpec& op, const std::string& target) {
  std::optional<Generation> generation;
  if (!target.empty()) generation = isa::find_machine(target)->generation;
  std::ostringstream out;
  out << op.name << ": " << op.doc << "\n\n";
  if (generation && !available(op, *generation)) {
    out << "  not available on " << target << "; first target: " << isa::first_target(op.since)
        << "\n";
  }
  out << "  engines    " << engines_text(op, generation) << "\n  targets    "
      << isa::first_target(op.since)
      << (op.until ? " to " + std::string(isa::first_target(*op.until)) : " and later")
      << "\n  opcode     " << isa::name(op.opcode) << "\n  semantics  " << op.semantics
      << "\n  cost       " << op.cost << "\n  sources    " << op.sources << "\n\n  parameters\n";
  for (const Param& p : op.params) {
    out << "    " << p.name << std::string(p.name.size() < 20 ? 20 - p.name.size() : 1, ' ')
        << traits(p.kind).catalogue << (p.optional ? ", optional" : "");
    if (traits(p.kind).holds_tensors())
      out << "; " << join(space_names(p.spaces), " or ") << "; " << dtypes_text(p.dtypes);
    if (!p.choices.empty()) out << "; " << join({p.choices.begin(), p.choices.end()}, ", ");
    if (!p.doc.empty()) out << "; " << p.doc;
    out << '\n';
  }
  return out.str();
}

const std::vector<std::string>& coverage_targets() {
  static const std::vector<std::string> kTargets = {"trn1", "trn2", "trn3"};
  return kTargets;
}

std::vector<CoverageRow> coverage() {
  std::vector<CoverageRow> rows;
  for (const std::string& function : api_functions()) {
    CoverageRow row{.function = function, .states = {}};
    const OpSpec* op = isa::find_op(function);
    for (const std::string& target : coverage_targets()) {
      if (op == nullptr) {
        row.states.emplace_back("missing");
      } else {
        row.states.emplace_back(available(*op, isa::find_machine(target)->generation) ? "complete"
                                                                                      : "-");
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string nearest_op(const std::string& text) {
  std::string best;
  std::size_t best_distance = text.size() / 2 + 1;
  for (const OpSpec* op : isa::op_table()) {
    const std::string candidate(op->name);
    const std::size_t distance = edit_distance(text, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace nkisim
