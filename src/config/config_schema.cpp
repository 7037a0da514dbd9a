// Makes the JSON Schema of machine descriptions from configs/config.def and the tables next to it.
#include <sstream>

#include "isa/base/machine.hpp"
#include "isa/program/op_spec.hpp"
#include "models/config.hpp"
#include "src/config/config_json.hpp"
#include "src/config/config_values.hpp"

namespace nkisim {
namespace {

using Schema = nlohmann::ordered_json;

Schema list_of(const Schema& items) { return {{"type", "array"}, {"items", items}}; }
Schema one_of(const Schema& names) { return {{"enum", names}}; }
Schema texts() { return list_of({{"type", "string"}}); }
Schema reference(std::string_view to) { return {{"$ref", "#/$defs/" + std::string(to)}}; }
Schema object_of(const Schema& properties) {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}
Schema map_of(const Schema& values) {
  return {{"type", "object"}, {"additionalProperties", values}};
}

template <typename Code>
Schema names_of(int count) {
  Schema names = Schema::array();
  for (int i = 0; i < count; ++i) names.push_back(std::string(name(static_cast<Code>(i))));
  return names;
}

// A value with where it comes from.
Schema sourced(const Schema& value) {
  Schema schema = object_of({{"value", value},
                             {"unit", {{"type", "string"}}},
                             {"source", {{"type", "string"}}},
                             {"note", {{"type", "string"}}},
                             {"reach", reference("reach")},
                             {"confidence", one_of(kConfidenceNames)}});
  schema["required"] = {"value", "unit", "source", "confidence"};
  return schema;
}

// The reach of a correction: its measurements, where they lie, and what holds without it.
Schema reach() {
  Schema schema = object_of({{"points", {{"type", "integer"}, {"minimum", 0}}},
                             {"domain", {{"type", "string"}}},
                             {"otherwise", Schema::object()}});
  schema["required"] = {"points", "domain", "otherwise"};
  return schema;
}

// Visits a section: adds it to the definitions, as it goes with those within it.
class SchemaWriter {
 public:
  explicit SchemaWriter(Schema& definitions) : definitions_(definitions) {}

  void section(std::string_view schema, std::string_view words) {
    name_ = schema;
    section_ = {{"description", words}};
    section_.update(object_of(Schema::object()));
  }
  template <ValueKind kKind, typename Value>
  void value(const char* key, Value& /*value*/, ValueBound bound, std::string_view words) {
    Schema schema = named(kKind);
    schema["description"] = words;
    Schema bounds = Schema::object();
    const auto whole = [](double v) { return static_cast<std::int64_t>(v); };  // as all of them are
    if (std::isfinite(bound.least)) {
      bounds[bound.above ? "exclusiveMinimum" : "minimum"] = whole(bound.least);
    }
    if (std::isfinite(bound.most)) bounds["maximum"] = whole(bound.most);
    if (bound.multiple != 0) bounds["multipleOf"] = bound.multiple;
    if (bound.power) {
      bounds = {{"enum", Schema::array()}};
      for (double v = bound.least; v <= bound.most; v *= 2) bounds["enum"].push_back(whole(v));
    }
    if (!bounds.empty()) schema["properties"] = {{"value", bounds}};
    section_["properties"][key] = schema;
  }
  template <ValueKind kKind, typename Value>
  void added(const char* key, Value& to, ValueBound bound, std::string_view words) {
    value<kKind>(key, to, bound, words);
  }
  template <ValueKind kKind, typename Values>
  void each_engine(const char* key, Values& values, std::string_view words) {
    Schema engines = Schema::object();
    for (const auto& e : names_of<isa::Engine>(static_cast<int>(values.size()))) {
      engines[e.get<std::string>()] = named(kKind);
    }
    section_["properties"][key] = {{"description", words}};
    section_["properties"][key].update(object_of(engines));
  }
  template <typename Section>
  void part(const char* key, Section& section, std::string_view words) {
    SchemaWriter within(definitions_);
    visit(within, section);
    within.add();
    section_["properties"][key] = {{"$ref", "#/$defs/" + within.name_}, {"description", words}};
  }
  void add() { definitions_[name_] = section_; }

 private:
  static Schema named(ValueKind kind) {
    static constexpr std::array<const char*, 8> kNames = {"time", "number", "whole",  "whole",
                                                          "flag", "times",  "wiring", "mode"};
    return reference(kNames.at(static_cast<std::size_t>(kind)));
  }

  Schema& definitions_;
  Schema section_;
  std::string name_;
};

template <typename Section>
void add_section(Schema& definitions) {
  Section section;
  SchemaWriter writer(definitions);
  visit(writer, section);
  writer.add();
}

Schema definitions() {
  Schema modes = Schema::array();
  for (const DgeModeName& known : kDgeModeNames) modes.push_back(known.name);
  Schema features = Schema::array();
  for (const isa::FeatureName& known : isa::kFeatureNames) features.push_back(known.name);
  Schema defs = {
      {"time", sourced({{"description", "in ns"}, {"type", "number"}, {"minimum", 0}})},
      {"number", sourced({{"type", "number"}})},
      {"whole", sourced({{"type", "integer"}})},
      {"flag", sourced({{"type", "boolean"}})},
      {"times", sourced(list_of({{"type", "number"}}))},
      {"wiring", sourced(one_of(kWiringNames))},
      {"mode", sourced(one_of(modes))},
      {"features", list_of(one_of(features))},
      {"reach", reach()},
      {"range", sourced({{"type", "array"},
                         {"items", {{"type", "integer"}, {"minimum", 0}}},
                         {"minItems", 2},
                         {"maxItems", 2}})},
  };
  add_section<models::DeviceRates>(defs);
  add_section<models::EngineConfig>(defs);
  add_section<models::ArrayConfig>(defs);
  add_section<models::ThrottleConfig>(defs);
  add_section<models::DmaRates>(defs);
  add_section<models::HbmConfig>(defs);
  add_section<models::CompilerConfig>(defs);
  add_section<models::TopologyConfig>(defs);
  add_section<models::AlgorithmConfig>(defs);
  add_section<models::CollectiveRates>(defs);
  return defs;
}

// A row of rules or extras.
Schema row(const Schema& values) {
  Schema schema = object_of({{"id", {{"type", "string"}}},
                             {"before", {{"type", "string"}}},
                             {"note", {{"type", "string"}}},
                             {"unit", one_of(names_of<isa::Unit>(isa::kUnitCount))},
                             {"opcodes", texts()},
                             {"present", reference("features")},
                             {"absent", reference("features")},
                             {"dtypes", texts()}});
  schema["properties"].update(values);
  schema["required"] = {"id"};
  return list_of(schema);
}

Schema select_rows(const Schema& algorithms) {
  const Schema whole = {{"type", "integer"}};
  const auto other = [&](const char* words) {
    Schema names = algorithms;
    names.push_back("none");
    Schema one = sourced(one_of(names));
    one["description"] = words;
    return one;
  };
  Schema schema = object_of(
      {{"id", {{"type", "string"}}},
       {"before", {{"type", "string"}}},
       {"kinds", list_of(one_of(names_of<models::CollectiveKind>(models::kCollectiveKinds)))},
       {"min_chips", whole},
       {"max_chips", whole},
       {"min_instances", whole},
       {"max_instances", whole},
       {"whole_chips", {{"type", "boolean"}}},
       {"max_bytes", reference("number")},
       {"algorithm", sourced(one_of(algorithms))},
       {"or_else", other("Taken instead where it is quicker.")},
       {"after", other("What operations up to above_bytes take: a larger one takes no "
                       "less time than one of so many bytes.")},
       {"above_bytes", reference("number")}});
  schema["required"] = {"id"};
  Schema rows = list_of(schema);
  rows["description"] = "The first row that matches an operation decides.";
  return rows;
}

// Collectives have two tables apart from their rates.
void add_tables(Schema& collectives) {
  Schema all = Schema::object(), chosen = Schema::array();
  for (const auto& name : names_of<models::Algorithm>(models::kAlgorithms)) {
    if (name == "none") continue;
    all[name.get<std::string>()] = reference("algorithm");
    if (name != "on_chip") chosen.push_back(name);
  }
  collectives["properties"]["algorithms"] = object_of(all);
  collectives["properties"]["select"] = select_rows(chosen);
}

Schema ports() {
  return map_of(object_of({{"space", one_of({"sbuf", "psum"})},
                           {"engines", list_of(one_of(names_of<isa::Engine>(isa::kEngineCount)))},
                           {"per_bank", {{"type", "boolean"}}},
                           {"enabled", reference("flag")}}));
}

Schema spread() {
  Schema of = object_of({{"low", reference("number")},
                         {"high", reference("number")},
                         {"widening", reference("number")},
                         {"versions", reference("number")},
                         {"targets", list_of(one_of({"trn1", "trn2", "trn3"}))}});
  of["required"] = {"low", "high", "widening", "targets"};
  Schema all = object_of({{"trace", of}, {"nki", of}, {"neuronxcc", of}});
  all["description"] =
      "Measured over simulated latency, by how the program came about: the interval of a run's "
      "confidence.";
  return all;
}

Schema root(const Schema& device) {
  Schema engines = Schema::object();
  for (const auto& e : names_of<isa::Engine>(isa::kEngineCount)) {
    engines[e.get<std::string>()] = reference("engine");
  }
  Schema targets = Schema::array();
  for (const isa::TargetName& known : isa::target_names()) {
    if (known.name == known.target) targets.push_back(known.name);
  }
  Schema all = {{"$schema", {{"type", "string"}}},
                {"inherits", {{"type", "string"}}},
                {"name", {{"type", "string"}}},
                {"target", one_of(targets)},
                {"instance_type", {{"type", "string"}}}};
  all.update(device);
  all["engines"] = object_of(engines);
  const Schema time = reference("time"), number = reference("number");
  all["rules"] = row({{"kind", one_of(kPartKindNames)},
                      {"fixed", time},
                      {"cycles_per_element", number},
                      {"fixed_cycles", number},
                      {"min_cycles", number},
                      {"overlap", time},
                      {"min_interval", time},
                      {"performance_mode", {{"type", "string"}}}});
  all["extras"] = row({{"fixed", time},
                       {"stream_factor", number},
                       {"min_cycles", number},
                       {"min_interval", time},
                       {"whole_gap_cycles", number}});
  for (const char* section :
       {"array", "throttle", "dma", "hbm", "compiler", "topology", "collectives"}) {
    all[section] = reference(section);
  }
  all["ports"] = ports();
  all["calibrated"] = map_of(map_of(map_of(reference("range"))));
  all["calibrated"]["description"] =
      "Sizes with samples, by target, unit and opcode: elements per partition; of the unit DMA, "
      "bytes of a packet. Others are extrapolated.";
  all["spread"] = spread();
  return all;
}

// JSON in which what fits a line stands on one.
void write(std::ostream& out, const Schema& node, const std::string& indent) {
  constexpr std::size_t kLine = 118;
  const std::string text = node.dump();
  if (text.size() + indent.size() <= kLine || !node.is_structured()) {
    out << text;
    return;
  }
  const bool object = node.is_object();
  out << (object ? "{" : "[");
  const char* separator = "\n";
  for (const auto& item : node.items()) {
    out << separator << indent << ' ';
    if (object) out << Schema(item.key()).dump() << ": ";
    write(out, item.value(), indent + ' ');
    separator = ",\n";
  }
  out << '\n' << indent << (object ? "}" : "]");
}

}  // namespace

std::string config_schema() {
  Schema defs = definitions();
  add_tables(defs["collectives"]);
  const Schema device = defs["device"]["properties"];
  defs.erase("device");
  Schema schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "nkisim config"},
      {"description",
       "Rates and latencies of one target. A file that inherits holds only differences, "
       "so nothing but its name and target, or what it inherits, is required here; a resolved "
       "config must be complete. "
       "Written by `nkisim config schema`."},
      {"type", "object"},
      {"additionalProperties", false},
      {"anyOf", Schema::array({{{"required", Schema::array({"name", "target"})}},
                               {{"required", Schema::array({"inherits"})}}})},
      {"properties", root(device)},
      {"$defs", defs}};
  std::ostringstream out;
  write(out, schema, "");
  out << '\n';
  return out.str();
}

}  // namespace nkisim
