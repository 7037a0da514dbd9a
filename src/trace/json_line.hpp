// Parses one line of JSON to a flat array of nodes, without an allocation per value once the
// buffers have grown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim {

enum class JsonType : std::uint8_t { kNull, kBool, kInt, kReal, kString, kArray, kObject };

struct JsonNode {
  JsonType type = JsonType::kNull;
  std::uint32_t next = 0;    // index just past this value
  std::uint32_t count = 0;   // members of an array or object
  std::string_view key;      // in an object
  std::string_view text;     // strings
  std::int64_t integer = 0;  // integers and booleans
  double real = 0;
};

class JsonLine;

/// A value inside a JsonLine; cheap to copy, valid until the line is parsed again.
class Json {
 public:
  Json(const JsonLine& line, std::uint32_t index) : line_(&line), index_(index) {}
  [[nodiscard]] JsonType type() const { return node().type; }
  [[nodiscard]] bool is(JsonType t) const { return node().type == t; }
  [[nodiscard]] bool is_number() const { return is(JsonType::kInt) || is(JsonType::kReal); }
  [[nodiscard]] std::string_view key() const { return node().key; }
  [[nodiscard]] std::string_view text() const { return node().text; }
  [[nodiscard]] std::int64_t integer() const { return node().integer; }
  [[nodiscard]] double real() const {
    return is(JsonType::kInt) ? static_cast<double>(node().integer) : node().real;
  }
  [[nodiscard]] std::size_t size() const { return node().count; }
  [[nodiscard]] std::optional<Json> find(std::string_view member) const;
  /// The value as messages call it: `"text"`, `12`, `a list of 3`, `an object`.
  [[nodiscard]] std::string describe() const;

  class Iterator {
   public:
    Iterator(const JsonLine& line, std::uint32_t index) : line_(&line), index_(index) {}
    Json operator*() const { return {*line_, index_}; }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const JsonLine* line_;
    std::uint32_t index_;
  };
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;

 private:
  [[nodiscard]] const JsonNode& node() const;
  const JsonLine* line_;
  std::uint32_t index_;
};

/// Parses one line at a time into reused storage.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;
  /// The line's value. Throws isa::Error with the column if it is not JSON (RFC 8259), has a key
  /// twice, nests deeper than 32 levels or holds an integer beyond 64 bits.
  Json parse(std::string_view line);
  [[nodiscard]] const std::vector<JsonNode>& nodes() const { return nodes_; }

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::vector<JsonNode> nodes_;
};

inline const JsonNode& Json::node() const { return line_->nodes()[index_]; }
inline Json::Iterator& Json::Iterator::operator++() {
  index_ = line_->nodes()[index_].next;
  return *this;
}
inline Json::Iterator Json::begin() const { return {*line_, index_ + 1}; }
inline Json::Iterator Json::end() const { return {*line_, node().next}; }

}  // namespace nkisim
