// Declares ConfigReader, which reads one JSON object of a machine description. It knows its place
// for error messages, and rejects keys that were not read.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/error.hpp"
#include "models/time.hpp"

namespace nkisim {

inline constexpr std::array<std::string_view, 4> kConfidenceNames = {"measured", "documented",
                                                                     "derived", "assumed"};

/// One JSON object. Every key must be read exactly by name; finish() rejects the others.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string pointer);
  /// Reads, instead of each value that rests on fewer than three measurements, what holds without
  /// it.
  [[nodiscard]] ConfigReader otherwise() const;
  /// True if one of the values that were read, also of objects within, rests on so few.
  [[nodiscard]] bool rests_on_few() const { return *few_; }

  [[nodiscard]] double number(const std::string& key);
  [[nodiscard]] double number_or(const std::string& key, double absent);
  [[nodiscard]] std::int64_t integer(const std::string& key);
  [[nodiscard]] int count(const std::string& key);
  [[nodiscard]] models::Fs time(const std::string& key);  // value in ns
  [[nodiscard]] models::Fs time_or_zero(const std::string& key);
  [[nodiscard]] std::vector<models::Fs> times(const std::string& key);
  /// A sourced value that is a list of two whole numbers of at least 0, the second not smaller.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(const std::string& key);
  [[nodiscard]] bool flag(const std::string& key);
  /// A sourced value that is text.
  [[nodiscard]] std::string choice(const std::string& key);
  /// Plain text, without source.
  [[nodiscard]] std::string text(const std::string& key);
  [[nodiscard]] std::string text_or(const std::string& key, const std::string& absent);
  [[nodiscard]] std::vector<std::string> texts(const std::string& key);  // absent: none
  [[nodiscard]] bool plain_flag(const std::string& key);
  [[nodiscard]] bool plain_flag_or(const std::string& key, bool absent);
  [[nodiscard]] std::int64_t plain_integer_or(const std::string& key, std::int64_t absent);
  [[nodiscard]] ConfigReader object(const std::string& key);
  [[nodiscard]] std::vector<ConfigReader> objects(const std::string& key);
  [[nodiscard]] std::vector<std::string> keys() const;
  /// The confidence of a sourced value; empty if there is none.
  [[nodiscard]] std::string confidence(const std::string& key) const;
  void ignore(const std::string& key) { used_.insert(key); }
  /// Throws if a key was not read.
  void finish() const;
  [[nodiscard]] bool has(const std::string& key) const { return object_.contains(key); }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;

 private:
  [[noreturn]] void fail(isa::Rule rule, const std::string& key, const std::string& message) const;
  const nlohmann::json& value(const std::string& key);  // of a sourced value
  [[nodiscard]] int read_reach();  // ... within it: measurements, -1 if it does not say
  const nlohmann::json& member(const std::string& key);
  const nlohmann::json& object_;
  std::string pointer_;
  std::set<std::string> used_;
  bool otherwise_ = false;
  std::shared_ptr<bool> few_ = std::make_shared<bool>(false);
};

}  // namespace nkisim
