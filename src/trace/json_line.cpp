#include "src/trace/json_line.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "isa/error.hpp"
#include "src/files/json_text.hpp"

namespace nkisim {

namespace {
constexpr std::size_t kMaxDepth = 32;
constexpr std::uint32_t kMaxMembers = 1024;  // keeps the search for duplicate keys short
}  // namespace

/// Receives nlohmann's events and appends nodes.
class JsonLineBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonLineBuilder(JsonLine& line) : line_(line) {}
  bool null() override { return add(JsonType::kNull, 0, 0); }
  bool boolean(bool v) override { return add(JsonType::kBool, v ? 1 : 0, 0); }
  bool number_integer(number_integer_t v) override { return add(JsonType::kInt, v, 0); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return stop("integer " + std::to_string(v) + " is beyond 64 bits");
    }
    return add(JsonType::kInt, static_cast<std::int64_t>(v), 0);
  }
  bool number_float(number_float_t v, const string_t&) override {
    return add(JsonType::kReal, 0, v);
  }
  bool string(string_t& v) override {
    add(JsonType::kString, 0, 0);
    line_.nodes_.back().text = keep(v);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonType::kObject); }
  bool start_array(std::size_t) override { return open(JsonType::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    const std::uint32_t object = line_.open_.back();
    if (line_.nodes_[object].count >= kMaxMembers) return stop("an object has over 1024 members");
    for (std::uint32_t i = object + 1; i < line_.nodes_.size(); i = line_.nodes_[i].next) {
      if (line_.nodes_[i].key == v) return stop("key \"" + v + "\" appears twice");
    }
    key_ = keep(v);
    return true;
  }
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
    error = "column " + std::to_string(position) + " is not JSON: " + what;
    return false;
  }
  std::string error;

 private:
  std::string_view keep(const std::string& s) {
    const std::size_t at = line_.chars_.size();  // never reallocates: reserved by parse()
    line_.chars_ += s;
    return {line_.chars_.data() + at, s.size()};
  }
  bool add(JsonType type, std::int64_t integer, double real) {
    if (!line_.open_.empty()) ++line_.nodes_[line_.open_.back()].count;
    JsonNode node;
    node.type = type;
    node.next = static_cast<std::uint32_t>(line_.nodes_.size() + 1);
    node.key = key_;
    node.integer = integer;
    node.real = real;
    line_.nodes_.push_back(node);
    key_ = {};
    return true;
  }
  bool open(JsonType type) {
    if (line_.open_.size() >= kMaxDepth) return stop("nesting is deeper than 32 levels");
    add(type, 0, 0);
    line_.open_.push_back(static_cast<std::uint32_t>(line_.nodes_.size() - 1));
    return true;
  }
  bool close() {
    line_.nodes_[line_.open_.back()].next = static_cast<std::uint32_t>(line_.nodes_.size());
    line_.open_.pop_back();
    return true;
  }
  bool stop(std::string why) {
    error = std::move(why);
    return false;
  }
  JsonLine& line_;
  std::string_view key_;
};

Json JsonLine::parse(std::string_view line) {
  nodes_.clear();
  open_.clear();
  chars_.clear();
  chars_.reserve(line.size() + 1);  // decoded text is never longer than its source
  JsonLineBuilder builder(*this);
  const char* begin = line.data();
  if (!nlohmann::json::sax_parse(begin, begin + line.size(), &builder)) {
    isa::fail(builder.error.empty() ? "line is not JSON" : builder.error);
  }
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
