// Reads the values of a section of a machine description and checks their bounds
// (configs/config.def).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "isa/base/machine.hpp"
#include "src/config/config_reader.hpp"
#include "src/config/config_sections.hpp"

namespace nkisim {

inline constexpr std::array<std::string_view, 4> kPartKindNames = {"pipe", "sequencer", "array",
                                                                   "dma_trigger"};
inline constexpr std::array<std::string_view, 3> kWiringNames = {"torus", "chain", "switch"};
struct DgeModeName {
  std::string_view name;
  isa::DgeMode mode;
};
inline constexpr std::array<DgeModeName, 3> kDgeModeNames = {{{"software", isa::DgeMode::kSwdge},
                                                              {"hardware", isa::DgeMode::kHwdge},
                                                              {"static", isa::DgeMode::kNone}}};

/// Visits a section: takes each of its values from an object, and fails where one is out of bounds.
class ValueReader {
 public:
  explicit ValueReader(ConfigReader& in) : in_(in) {}

  void section(std::string_view /*schema*/, std::string_view /*words*/) {}

  template <ValueKind kKind, typename Value>
  void value(const char* key, Value& to, ValueBound bound, std::string_view /*words*/) {
    to = read<kKind>(in_, key);
    if constexpr (std::is_arithmetic_v<Value>) {
      if (!bound.holds(static_cast<double>(to))) in_.fail(key + kValue, bound.required());
    }
  }
  template <ValueKind kKind, typename Value>
  void added(const char* key, Value& to, ValueBound bound, std::string_view words) {
    in_.ignore(key);
    if (in_.has(key)) value<kKind>(key, to, bound, words);
  }
  template <ValueKind kKind, typename Values>
  void each_engine(const char* key, Values& to, std::string_view /*words*/) {
    ConfigReader engines = in_.object(key);
    for (std::size_t e = 0; e < to.size(); ++e) {
      to[e] = read<kKind>(engines, std::string(name(static_cast<isa::Engine>(e))));
    }
    engines.finish();
  }
  template <typename Section>
  void part(const char* key, Section& to, std::string_view /*words*/) {
    ConfigReader in = in_.object(key);
    ValueReader reader(in);
    visit(reader, to);
    in.finish();
  }

 private:
  inline static const std::string kValue = "/value";

  template <ValueKind kKind>
  static auto read(ConfigReader& in, const std::string& key) {
    if constexpr (kKind == ValueKind::time) return in.time(key);
    if constexpr (kKind == ValueKind::number) return in.number(key);
    if constexpr (kKind == ValueKind::whole) return in.integer(key);
    if constexpr (kKind == ValueKind::count) return in.count(key);
    if constexpr (kKind == ValueKind::flag) return in.flag(key);
    if constexpr (kKind == ValueKind::times) return in.times(key);
    if constexpr (kKind == ValueKind::wiring) return wiring(in, key);
    if constexpr (kKind == ValueKind::mode) return mode(in, key);
  }
  static models::Wiring wiring(ConfigReader& in, const std::string& key);
  static isa::DgeMode mode(ConfigReader& in, const std::string& key);

  ConfigReader& in_;
};

/// The values of a section that stand in config.def.
template <typename Section>
void read_values(ConfigReader& in, Section& to) {
  ValueReader reader(in);
  visit(reader, to);
}
/// A section that has nothing else.
template <typename Section>
Section read_section(ConfigReader in) {
  Section section;
  read_values(in, section);
  in.finish();
  return section;
}

}  // namespace nkisim
