// Parses one line of JSON with simdjson, and finds the flaw in text that is not JSON.

#include "src/trace/json_line.hpp"

#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "isa/base/error.hpp"
#include "src/files/json_text.hpp"

namespace nkisim {

namespace {
constexpr std::size_t kMaxDepth = 32;
constexpr std::uint32_t kMaxMembers = 1024;  // keeps the search for duplicate keys short
constexpr const char* kTooDeep = "nesting is deeper than 32 levels";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // what Windows' editors begin with

[[noreturn]] void fail_integer(const std::string& digits) {
  isa::fail(isa::Rule::trace_line, "integer " + digits + " is beyond 64 bits");
}

/// Says where and why a text is not JSON: simdjson stops without either.
class FlawFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t& source) override {
    if (source.find_first_of(".eE") != std::string::npos) return true;
    fail_integer(source);
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    if (const auto at = what.find("column "); at != std::string::npos) {
      if (const auto colon = what.find(": ", at); colon != std::string::npos) {
        what.erase(0, colon + 2);
      }
    } else if (const auto bracket = what.find("] "); bracket != std::string::npos) {
      what.erase(0, bracket + 2);
    }
    flaw = "column " + std::to_string(position) + " is not JSON: " + what;
    return false;
  }
  std::string flaw = "line is not JSON";

 private:
  bool open() {
    if (++depth_ <= kMaxDepth) return true;
    flaw = kTooDeep;
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }
  std::size_t depth_ = 0;
};

}  // namespace

/// Keeps simdjson's large header out of ours.
struct JsonLine::Parser {
  simdjson::dom::parser dom;

  /// Appends `value` and what it holds, checking what JSON leaves open.
  static void append(std::vector<JsonNode>& nodes, simdjson::dom::element value,
                     std::string_view key, std::size_t depth) {
    using simdjson::dom::element_type;
    const std::size_t at = nodes.size();
    JsonNode& node = nodes.emplace_back();
    node.key = key;
    node.next = static_cast<std::uint32_t>(at + 1);
    switch (value.type()) {
      case element_type::NULL_VALUE:
        return;
      case element_type::BOOL:
        node.type = JsonType::kBool;
        node.integer = value.get_bool().value_unsafe() ? 1 : 0;
        return;
      case element_type::INT64:
        node.type = JsonType::kInt;
        node.integer = value.get_int64().value_unsafe();
        return;
      case element_type::UINT64:
        fail_integer(std::to_string(value.get_uint64().value_unsafe()));
      case element_type::DOUBLE:
        node.type = JsonType::kReal;
        node.real = value.get_double().value_unsafe();
        return;
      case element_type::STRING:
        node.type = JsonType::kString;
        node.text = value.get_string().value_unsafe();
        return;
      case element_type::ARRAY: {
        node.type = JsonType::kArray;
        if (depth == kMaxDepth) isa::fail(isa::Rule::trace_line, kTooDeep);
        const simdjson::dom::array items = value.get_array().value_unsafe();
        for (const simdjson::dom::element item : items) {
          append(nodes, item, {}, depth + 1);
          ++nodes[at].count;
        }
        break;
      }
      case element_type::OBJECT: {
        node.type = JsonType::kObject;
        if (depth == kMaxDepth) isa::fail(isa::Rule::trace_line, kTooDeep);
        const simdjson::dom::object members = value.get_object().value_unsafe();
        for (const simdjson::dom::key_value_pair member : members) {
          check_key(nodes, at, member.key);
          append(nodes, member.value, member.key, depth + 1);
          ++nodes[at].count;
        }
        break;
      }
    }
    nodes[at].next = static_cast<std::uint32_t>(nodes.size());
  }

  /// `key` may come next in the object that is being appended at `object`.
  static void check_key(const std::vector<JsonNode>& nodes, std::size_t object,
                        std::string_view key) {
    if (nodes[object].count >= kMaxMembers)
      isa::fail(isa::Rule::trace_line, "an object has over 1024 members");
    for (std::size_t i = object + 1; i < nodes.size(); i = nodes[i].next) {
      if (nodes[i].key == key)
        isa::fail(isa::Rule::trace_line, "key \"" + std::string(key) + "\" appears twice");
    }
  }
};

JsonLine::JsonLine() : parser_(std::make_unique<Parser>()) {}
JsonLine::~JsonLine() = default;

Json JsonLine::parse(std::string_view line) {
  nodes_.clear();
  const std::string_view json =
      line.substr(line.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  simdjson::dom::element root;
  if (parser_->dom.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) {
    FlawFinder finder;
    nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
    isa::fail(isa::Rule::trace_line, finder.flaw);
  }
  Parser::append(nodes_, root, {}, 0);
  return {*this, 0};
}

std::optional<Json> Json::find(std::string_view member) const {
  if (!is(JsonType::kObject)) return std::nullopt;
  for (Json child : *this) {
    if (child.key() == member) return child;
  }
  return std::nullopt;
}

std::string Json::describe() const {
  std::string out;
  switch (type()) {
    case JsonType::kNull:
      return "null";
    case JsonType::kBool:
      return integer() != 0 ? "true" : "false";
    case JsonType::kInt:
      return std::to_string(integer());
    case JsonType::kReal:
      append_json_real(out, real());
      return out;
    case JsonType::kString:
      append_json_string(out, text().substr(0, 80));
      return out;
    case JsonType::kArray:
      return "a list of " + std::to_string(size());
    case JsonType::kObject:
      return "an object";
  }
  return "unknown";
}

}  // namespace nkisim
