// Reads machine descriptions, merges each with the one it inherits from, and applies a user's
// changes.

#include "src/config/config_json.hpp"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "isa/base/error.hpp"
#include "isa/base/machine.hpp"
#include "isa/base/nearest.hpp"
#include "src/config/embedded_configs.hpp"
#include "src/files/files.hpp"

namespace nkisim {
namespace {

using nlohmann::json;

constexpr int kMaxInheritance = 8;

constexpr int kMaxDepth = 32;  // ours have 6 levels
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{16} << 20U;

template <typename Value>
Value get(simdjson::dom::element from) {
  Value value{};
  [[maybe_unused]] const simdjson::error_code none = from.get(value);  // its type is known
  return value;
}

// Converts what simdjson has read; none where it is too deep.
std::optional<json> converted(simdjson::dom::element from, int depth) {
  using simdjson::dom::element_type;
  if (depth > kMaxDepth) return {};
  switch (from.type()) {
    case element_type::ARRAY: {
      json list = json::array();
      for (const simdjson::dom::element item : get<simdjson::dom::array>(from)) {
        std::optional<json> one = converted(item, depth + 1);
        if (!one) return {};
        list.push_back(*std::move(one));
      }
      return list;
    }
    case element_type::OBJECT: {
      json::object_t object;
      for (const auto& [key, item] : get<simdjson::dom::object>(from)) {
        std::optional<json> one = converted(item, depth + 1);
        if (!one) return {};
        object.insert_or_assign(std::string(key), *std::move(one));
      }
      return object;
    }
    case element_type::STRING:
      return std::string(get<std::string_view>(from));
    case element_type::INT64: {
      const std::int64_t whole = get<std::int64_t>(from);
      return whole < 0 ? json(whole) : json(static_cast<std::uint64_t>(whole));
    }
    case element_type::UINT64:
      return get<std::uint64_t>(from);
    case element_type::DOUBLE:
      return get<double>(from);
    case element_type::BOOL:
      return get<bool>(from);
    default:
      return json(nullptr);
  }
}

// A text that simdjson, which is faster, does not take is read by the other, whose messages say
// where it is wrong.
std::optional<json> parse_fast(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) return {};
  return converted(root, 1);
}

// Copying and destroying a value recurses: its depth is limited as it is read.
json parse_text(const std::string& text, const std::string& where) {
  if (std::optional<json> fast = parse_fast(text)) return *std::move(fast);
  const auto shallow = [&where](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth)
      isa::fail(isa::Rule::config_json, "config " + where + ": nesting is deeper than 32 levels");
    return true;
  };
  try {
    return json::parse(text, shallow);
  } catch (const json::exception& e) {  // also a number beyond every double
    isa::fail(isa::Rule::config_json, "config " + where + ": " + e.what());
  }
}

json read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) isa::fail(isa::Rule::config_file, "config " + path + ": cannot be read");
  std::error_code ec;
  if (std::filesystem::file_size(path, ec) > kMaxBytes || ec) {
    isa::fail(isa::Rule::config_file, "config " + path + ": of more than 16 MiB");
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_text(text.str(), path);
}

std::string known_names() {
  std::string list;
  for (const std::string& n : config_names()) list += (list.empty() ? "" : ", ") + n;
  return list;
}

json load_one(const std::string& name_or_path, const std::filesystem::path& relative_to) {
  for (const EmbeddedConfig& c : embedded_configs()) {
    if (c.name == name_or_path) return parse_text(std::string(c.text), name_or_path);
  }
  std::filesystem::path path(name_or_path);
  if (path.is_relative() && !relative_to.empty()) path = relative_to / path;
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec)) {
    const std::string_view target = isa::find_target(name_or_path);
    if (!target.empty()) return load_one(std::string(target), {});
    isa::fail(isa::Rule::config_file,
              "config " + name_or_path + ": neither a file nor one of " + known_names());
  }
  return read_file(path.string());
}

// Runs `fn`; a message that begins "config: " gets the file's name.
template <typename Fn>
auto of_file(const std::string& file, Fn&& fn) {
  try {
    return fn();
  } catch (const isa::Error& e) {
    constexpr std::string_view kHead = "config: ";
    if (e.message().compare(0, kHead.size(), kHead) != 0) throw;
    isa::fail(e.rule(), "config " + file + ": " + e.message().substr(kHead.size()));
  }
}

bool is_leaf(const json& j) { return !j.is_object() || j.contains("value"); }

json::iterator find_id(json& rows, const json& id) {
  return std::find_if(rows.begin(), rows.end(), [&](const json& r) {
    return r.is_object() && r.contains("id") && r["id"] == id;
  });
}

bool is_table(const std::string& key) {
  return key == "rules" || key == "extras" || key == "select";
}

void merge(json& base, const json& child);

// Rows with a known id change that row; new ones go before the row named by "before", or last.
void merge_rows(json& rows, const json& changes) {
  for (const json& change : changes) {
    if (!change.is_object() || !change.contains("id"))
      isa::fail(isa::Rule::config_rule, "config: a rule has no id");
    const auto known = find_id(rows, change["id"]);
    if (known != rows.end()) {
      merge(*known, change);
      continue;
    }
    json row = change;
    auto at = rows.end();
    if (row.contains("before")) {
      at = find_id(rows, row["before"]);
      if (at == rows.end())
        isa::fail(isa::Rule::config_rule,
                  "config: no rule " + row["before"].dump() + " to go before");
      row.erase("before");
    }
    rows.insert(at, row);
  }
}

void merge(json& base, const json& child) {
  for (const auto& item : child.items()) {
    const auto known = base.find(item.key());
    if (known == base.end()) {
      base[item.key()] = item.value();
    } else if (known->is_array() && is_table(item.key())) {
      merge_rows(*known, item.value());
    } else if (is_leaf(*known) || is_leaf(item.value())) {
      *known = item.value();
    } else {
      merge(*known, item.value());
    }
  }
}

bool is_embedded(const std::string& name) {
  const auto all = embedded_configs();
  if (!isa::find_target(name).empty()) return true;
  return std::any_of(all.begin(), all.end(),
                     [&](const EmbeddedConfig& c) { return c.name == name; });
}

json load_inherited(const std::string& name_or_path, const std::filesystem::path& folder,
                    const PermittedFiles& reach, int depth) {
  if (depth > kMaxInheritance)
    isa::fail(isa::Rule::config_file, "config " + name_or_path + ": inherits itself");
  json own = load_one(name_or_path, folder);
  if (!own.is_object())
    isa::fail(isa::Rule::config_file, "config " + name_or_path + ": an object is required");
  if (!own.contains("inherits")) return own;
  if (!own["inherits"].is_string())
    isa::fail(isa::Rule::config_file, "config " + name_or_path + ": /inherits: text is required");
  const std::filesystem::path path = folder / name_or_path;
  const auto inherited = own["inherits"].get<std::string>();
  if (!is_embedded(inherited) && !reach.find(path.parent_path() / inherited)) {
    isa::fail(isa::Rule::config_file, "config " + name_or_path + ": /inherits", inherited,
              "a config's name, or a file below the folder of the first one or the working folder");
  }
  json base = load_inherited(inherited, path.parent_path(), reach, depth + 1);
  own.erase("inherits");
  of_file(name_or_path, [&] { merge(base, own); });
  return base;
}

json* find_member(json& at, const std::string& key) {
  if (at.is_object()) {
    const auto it = at.find(key);
    return it == at.end() ? nullptr : &*it;
  }
  if (!at.is_array()) return nullptr;
  const auto it = find_id(at, key);
  return it == at.end() ? nullptr : &*it;
}

// "; did you mean x?" of what `find_member` would find; a list of it where nothing is near.
std::string suggest_member(const json& at, const std::string& key) {
  std::vector<std::string_view> names;
  for (const auto& item : at.items()) {
    if (at.is_object()) {
      names.emplace_back(item.key());
    } else if (item.value().is_object() && item.value().contains("id") &&
               item.value()["id"].is_string()) {
      names.emplace_back(item.value()["id"].get_ref<const std::string&>());
    }
  }
  const std::string near = isa::suggest(key, names);
  if (!near.empty() || names.empty()) return near;
  std::string all;
  for (const std::string_view name : names)
    all += (all.empty() ? "; one of " : ", ") + std::string(name);
  return all + " is required";
}

json parse_value(std::string_view text) {
  if (std::count(text.begin(), text.end(), '[') + std::count(text.begin(), text.end(), '{') >
      kMaxDepth) {
    isa::fail(isa::Rule::config_override, "override", "a value of more than 32 lists and objects",
              "a simpler one");
  }
  json v = json::parse(text, nullptr, false);
  return v.is_discarded() ? json(std::string(text)) : v;
}

// Sections that files of 0.1 do not have (docs/compatibility.md): they say how several ranks are
// connected, and come from the built-in description of the same target.
void add_new_sections(json& config) {
  const auto target = config.find("target");
  if (target == config.end() || !target->is_string() || !is_embedded(target->get<std::string>())) {
    return;
  }
  json built_in;
  for (const char* const section : {"topology", "collectives"}) {
    if (config.contains(section)) continue;
    if (built_in.is_null())
      built_in = load_inherited(target->get<std::string>(), {}, PermittedFiles({}), 0);
    config[section] = built_in.at(section);
  }
}

}  // namespace

std::vector<std::string> config_names() {
  std::vector<std::string> list;
  for (const EmbeddedConfig& c : embedded_configs()) list.emplace_back(c.name);
  std::sort(list.begin(), list.end());
  return list;
}

json load_config_json(const std::string& name_or_path) {
  const PermittedFiles reach({std::filesystem::path(name_or_path).parent_path(), "."});
  json config = load_inherited(name_or_path, {}, reach, 0);
  add_new_sections(config);
  return config;
}

void apply_override(json& config, std::string_view path, std::string_view value) {
  json* at = &config;
  std::istringstream parts{std::string(path)};
  std::string key;
  while (std::getline(parts, key, '.')) {
    json* const within = at;
    at = find_member(*within, key);
    if (at == nullptr) {
      isa::fail(isa::Rule::config_override, "config: no " + std::string(path) + " (at \"" + key +
                                                "\")" + suggest_member(*within, key));
    }
  }
  const json new_value = parse_value(value);
  if (at->is_object() && at->contains("value")) {
    if ((*at)["value"].type_name() != std::string(new_value.type_name())) {
      isa::fail(isa::Rule::config_override, "config " + std::string(path), std::string(value),
                "a " + std::string((*at)["value"].type_name()));
    }
    (*at)["value"] = new_value;
    (*at)["source"] = "override";
    (*at)["confidence"] = "assumed";
    at->erase("reach");  // of the number that it replaces
  } else if (!at->is_object()) {
    *at = new_value;
  } else {
    isa::fail(isa::Rule::config_override, "config: " + std::string(path) + " is not one value");
  }
}

models::Config load_config(const std::string& name_or_path,
                           const std::vector<std::string>& overrides) {
  json config = load_config_json(name_or_path);
  of_file(name_or_path, [&] {
    for (const std::string& o : overrides) {
      const std::size_t equals = o.find('=');
      if (equals == std::string::npos)
        isa::fail(isa::Rule::config_override, "override", "\"" + o + "\"", "path=value");
      apply_override(config, std::string_view(o).substr(0, equals),
                     std::string_view(o).substr(equals + 1));
    }
  });
  return parse_config(config, name_or_path);
}

models::Config parse_config(const nlohmann::json& config, const std::string& file) {
  return of_file(file, [&] { return parse_config(config); });
}

}  // namespace nkisim
