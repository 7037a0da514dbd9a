// Lists the values of each section of a machine description as a function: visit(visitor, section)
// passes all values of the section to a visitor. The list comes from configs/config.def.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "models/rates.hpp"

namespace nkisim {

enum class ValueKind : std::uint8_t { time, number, whole, count, flag, times, wiring, mode };

/// The numbers that a value may be.
struct ValueBound {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is not
  bool power = false;  // of two
  std::int64_t multiple = 0;
  std::string_view unit = {};

  [[nodiscard]] bool holds(double value) const {
    if (multiple != 0 && std::fmod(value, static_cast<double>(multiple)) != 0) return false;
    if (power && std::exp2(std::round(std::log2(value))) != value) return false;
    return (above ? value > least : value >= least) && value <= most;
  }
  /// "1 to 16 is required".
  [[nodiscard]] std::string required() const;
};

namespace bounds {
inline constexpr ValueBound any = {};
inline constexpr ValueBound share = {.least = 0, .most = 1, .above = true};
constexpr ValueBound at_least(double least) { return {.least = least}; }
constexpr ValueBound between(double least, double most) { return {.least = least, .most = most}; }
constexpr ValueBound only(double value) { return {.least = value, .most = value}; }
constexpr ValueBound power_of_two(double least, double most) {
  return {.least = least, .most = most, .power = true};
}
constexpr ValueBound multiple(std::int64_t of, double least, double most) {
  return {.least = least, .most = most, .multiple = of};
}
constexpr ValueBound above(double least, std::string_view unit) {
  return {.least = least, .above = true, .unit = unit};
}
}  // namespace bounds

#define NKISIM_SECTION(type, schema, words)           \
  template <typename Visitor>                         \
  void visit(Visitor& visitor, models::type& rates) { \
    using namespace bounds;                           \
    visitor.section(#schema, words);
#define NKISIM_VALUE(kind, key, member, initial, bound, words) \
  visitor.template value<ValueKind::kind>(#key, rates.member, bound, words);
#define NKISIM_ADDED(kind, key, member, initial, bound, words) \
  visitor.template added<ValueKind::kind>(#key, rates.member, bound, words);
#define NKISIM_EACH_ENGINE(kind, key, member, words) \
  visitor.template each_engine<ValueKind::kind>(#key, rates.member, words);
#define NKISIM_PART(type, key, member, words) visitor.part(#key, rates.member, words);
#define NKISIM_END(type) }
#include "configs/config.def"
#undef NKISIM_SECTION
#undef NKISIM_VALUE
#undef NKISIM_ADDED
#undef NKISIM_EACH_ENGINE
#undef NKISIM_PART
#undef NKISIM_END

}  // namespace nkisim
