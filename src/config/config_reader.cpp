// Reads values of a machine description's JSON with their unit, source and confidence.

#include "src/config/config_reader.hpp"

#include <algorithm>
#include <limits>

#include "isa/base/error.hpp"
#include "isa/base/nearest.hpp"

namespace nkisim {
namespace {
constexpr int kEnough = 3;  // measurements of a number that may change a kernel by more than half
}

ConfigReader::ConfigReader(const nlohmann::json& object, std::string pointer)
    : object_(object), pointer_(std::move(pointer)) {
  if (!object.is_object())
    isa::fail(isa::Rule::config_json, "config: " + pointer_ + ": an object is required");
}

void ConfigReader::fail(const std::string& key, const std::string& message) const {
  fail(isa::Rule::config_value, key, message);
}

void ConfigReader::fail(isa::Rule rule, const std::string& key, const std::string& message) const {
  isa::fail(rule, "config: " + pointer_ + (key.empty() ? "" : "/" + key) + ": " + message);
}

const nlohmann::json& ConfigReader::member(const std::string& key) {
  used_.insert(key);
  const auto it = object_.find(key);
  if (it == object_.end()) fail(isa::Rule::config_key, key, "is missing");
  return *it;
}

const nlohmann::json& ConfigReader::value(const std::string& key) {
  const nlohmann::json& entry = member(key);
  if (!entry.is_object()) fail(key, "an object with value, unit, source, confidence is required");
  ConfigReader inner(entry, pointer_ + "/" + key);
  (void)inner.text("unit");
  (void)inner.text("source");
  const std::string confidence = inner.text("confidence");
  if (std::find(kConfidenceNames.begin(), kConfidenceNames.end(), confidence) ==
      kConfidenceNames.end()) {
    inner.fail("confidence",
               "\"" + confidence + "\"; measured, documented, derived or assumed is required");
  }
  inner.ignore("note");
  const int points = inner.read_reach();
  const nlohmann::json& v = inner.member("value");
  inner.finish();
  if (points < 0 || points >= kEnough) return v;
  *few_ = true;
  return otherwise_ ? entry["reach"]["otherwise"] : v;
}

// A correction says how many measurements it rests on, where they lie, and what holds without it.
int ConfigReader::read_reach() {
  if (!has("reach")) return -1;
  ConfigReader reach = object("reach");
  const std::int64_t points = reach.plain_integer_or("points", -1);
  if (points < 0) reach.fail("points", "a number of measurements is required");
  (void)reach.text("domain");
  const nlohmann::json& otherwise = reach.member("otherwise");
  if (otherwise.type() != member("value").type() &&
      !(otherwise.is_number() && member("value").is_number())) {
    reach.fail("otherwise", "a " + std::string(member("value").type_name()) +
                                " as the value is required, found " + otherwise.dump());
  }
  reach.finish();
  return static_cast<int>(std::min<std::int64_t>(points, kEnough));
}

double ConfigReader::number(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_number()) fail(key + "/value", "a number is required, found " + v.dump());
  return v.get<double>();
}

double ConfigReader::number_or(const std::string& key, double absent) {
  return has(key) ? number(key) : absent;
}

std::int64_t ConfigReader::integer(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_number_integer()) fail(key + "/value", "an integer is required, found " + v.dump());
  return v.get<std::int64_t>();
}

int ConfigReader::count(const std::string& key) {
  const std::int64_t n = integer(key);
  if (n < 0 || n > std::numeric_limits<int>::max()) {
    fail(key + "/value", "a count is required, found " + std::to_string(n));
  }
  return static_cast<int>(n);
}

models::Fs ConfigReader::time(const std::string& key) {
  const double ns = number(key);
  if (ns < 0 || ns > 1e12) fail(key + "/value", "a time from 0 to 1e12 ns is required");
  return models::from_ns(ns);
}

models::Fs ConfigReader::time_or_zero(const std::string& key) { return has(key) ? time(key) : 0; }

std::vector<models::Fs> ConfigReader::times(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_array()) fail(key + "/value", "a list of times in ns is required");
  std::vector<models::Fs> list;
  for (const auto& item : v) {
    if (!item.is_number()) fail(key + "/value", "a list of times in ns is required");
    list.push_back(models::from_ns(item.get<double>()));
  }
  return list;
}

std::pair<std::int64_t, std::int64_t> ConfigReader::range(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_array() || v.size() != 2 || !v[0].is_number_unsigned() || !v[1].is_number_unsigned() ||
      v[1] < v[0]) {
    fail(key + "/value", "two whole numbers, the least and the most, are required");
  }
  return {v[0].get<std::int64_t>(), v[1].get<std::int64_t>()};
}

std::string ConfigReader::confidence(const std::string& key) const {
  const auto it = object_.find(key);
  return it != object_.end() && it->is_object() ? it->value("confidence", "") : "";
}

bool ConfigReader::flag(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_boolean()) fail(key + "/value", "true or false is required, found " + v.dump());
  return v.get<bool>();
}

std::string ConfigReader::choice(const std::string& key) {
  const nlohmann::json& v = value(key);
  if (!v.is_string()) fail(key + "/value", "text is required, found " + v.dump());
  return v.get<std::string>();
}

std::string ConfigReader::text(const std::string& key) {
  const nlohmann::json& v = member(key);
  if (!v.is_string()) fail(key, "text is required, found " + v.dump());
  return v.get<std::string>();
}

std::string ConfigReader::text_or(const std::string& key, const std::string& absent) {
  return has(key) ? text(key) : absent;
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  if (!has(key)) return {};
  const nlohmann::json& v = member(key);
  if (!v.is_array()) fail(key, "a list of texts is required");
  std::vector<std::string> list;
  for (const auto& item : v) {
    if (!item.is_string()) fail(key, "a list of texts is required");
    list.push_back(item.get<std::string>());
  }
  return list;
}

bool ConfigReader::plain_flag(const std::string& key) {
  const nlohmann::json& v = member(key);
  if (!v.is_boolean()) fail(key, "true or false is required, found " + v.dump());
  return v.get<bool>();
}

bool ConfigReader::plain_flag_or(const std::string& key, bool absent) {
  return has(key) ? plain_flag(key) : absent;
}

std::int64_t ConfigReader::plain_integer_or(const std::string& key, std::int64_t absent) {
  if (!has(key)) return absent;
  const nlohmann::json& v = member(key);
  if (!v.is_number_integer()) fail(key, "an integer is required, found " + v.dump());
  return v.get<std::int64_t>();
}

ConfigReader ConfigReader::object(const std::string& key) {
  ConfigReader within(member(key), pointer_ + "/" + key);
  within.otherwise_ = otherwise_;
  within.few_ = few_;
  return within;
}

ConfigReader ConfigReader::otherwise() const {
  ConfigReader again(object_, pointer_);
  again.otherwise_ = true;
  return again;
}

std::vector<ConfigReader> ConfigReader::objects(const std::string& key) {
  const nlohmann::json& v = member(key);
  if (!v.is_array()) fail(key, "a list is required");
  std::vector<ConfigReader> list;
  for (std::size_t i = 0; i < v.size(); ++i) {
    list.emplace_back(v[i], pointer_ + "/" + key + "/" + std::to_string(i));
  }
  return list;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> list;
  for (const auto& item : object_.items()) list.push_back(item.key());
  return list;
}

void ConfigReader::finish() const {
  for (const auto& item : object_.items()) {
    if (used_.count(item.key()) != 0) continue;
    const std::vector<std::string_view> known(used_.begin(), used_.end());
    fail(isa::Rule::config_key, item.key(), "is not a known key" + isa::suggest(item.key(), known));
  }
}

}  // namespace nkisim
