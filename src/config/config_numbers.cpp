// Implements config_numbers.hpp: visits the values of the section by its table.

#include "src/config/config_numbers.hpp"

#include "src/config/config_sections.hpp"

namespace nkisim {
namespace {

/// Visits a section, and calls `use` with the path and the place of each number.
template <typename Use>
class NumberVisitor {
 public:
  explicit NumberVisitor(Use use) : use_(use) {}
  void section(std::string_view /*schema*/, std::string_view /*words*/) {}
  template <ValueKind kKind, typename Value>
  void value(const char* key, Value& value, ValueBound /*bound*/, std::string_view /*words*/) {
    if constexpr (std::is_arithmetic_v<Value>) use_(within_ + key, value);
  }
  template <ValueKind kKind, typename Value>
  void added(const char* key, Value& at, ValueBound bound, std::string_view words) {
    value<kKind>(key, at, bound, words);
  }
  template <ValueKind kKind, typename Values>
  void each_engine(const char* /*key*/, Values& /*values*/, std::string_view /*words*/) {}
  template <typename Section>
  void part(const char* key, Section& section, std::string_view /*words*/) {
    within_ = std::string(key) + ".";
    visit(*this, section);
    within_.clear();
  }

 private:
  Use use_;
  std::string within_;
};

}  // namespace

std::vector<ConfigNumber> numbers(models::DmaRates rates) {
  std::vector<ConfigNumber> found;
  NumberVisitor visitor([&found](std::string path, const auto& value) {
    found.push_back({std::move(path), static_cast<double>(value)});
  });
  visit(visitor, rates);
  return found;
}

void set_number(models::DmaRates& rates, const ConfigNumber& number) {
  NumberVisitor visitor([&number](const std::string& path, auto& value) {
    if (path == number.path) value = static_cast<std::decay_t<decltype(value)>>(number.value);
  });
  visit(visitor, rates);
}

}  // namespace nkisim
