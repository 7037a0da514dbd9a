// Describes the bounds of a machine description's values in words, and reads values that are names.

#include "src/config/config_values.hpp"

#include <algorithm>
#include <cstdio>

namespace nkisim {
namespace {

std::string short_number(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

}  // namespace

std::string ValueBound::required() const {
  const auto whole = [](double v) { return std::to_string(static_cast<std::int64_t>(v)); };
  if (least == most) return whole(least) + " is required; no model follows another value";
  if (power) return "a power of two from " + whole(least) + " to " + whole(most) + " is required";
  if (multiple != 0) {
    return "a multiple of " + std::to_string(multiple) + " from " + whole(least) + " to " +
           whole(most) + " is required";
  }
  std::string text = (above ? "more than " : "at least ") + short_number(least);
  if (std::isfinite(most)) {
    text = short_number(least) + (above ? ", " : " to ") + short_number(most);
    if (above) text = "(" + text + "]";
  }
  if (!unit.empty()) text += " " + std::string(unit);
  return text + " is required";
}

models::Wiring ValueReader::wiring(ConfigReader& in, const std::string& key) {
  const std::string text = in.choice(key);
  const auto known = std::find(kWiringNames.begin(), kWiringNames.end(), text);
  if (known == kWiringNames.end()) in.fail(key + kValue, "torus, chain or switch is required");
  return static_cast<models::Wiring>(known - kWiringNames.begin());
}

isa::DgeMode ValueReader::mode(ConfigReader& in, const std::string& key) {
  const std::string text = in.choice(key);
  for (const DgeModeName& known : kDgeModeNames) {
    if (known.name == text) return known.mode;
  }
  in.fail(key + kValue, "software, hardware or static is required");
}

}  // namespace nkisim
