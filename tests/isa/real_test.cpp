// Tests the reading of floating-point numbers from text.
#include "isa/base/real.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>

using namespace nkisim::isa;

namespace {

using Read = std::from_chars_result (*)(const char*, const char*, double&, std::chars_format);
constexpr std::array<Read, 2> kReads = {read_real, read_real_by_strtod};
constexpr auto kHex = std::chars_format::hex;

struct Case {
  std::string text;
  double value;
  std::size_t used;
  std::chars_format format = std::chars_format::general;
};

}  // namespace

TEST_CASE("numbers are read as far as they go", "[real]") {
  const Case cases[] = {{"90", 90, 2},
                        {"1.5h", 1.5, 3},
                        {"-2.25e2x", -225, 7},
                        {"1e+", 1, 1},
                        {"1.", 1, 2},
                        {".5", 0.5, 2},
                        {"0x10", 0, 1},
                        {"0e5", 0, 3},
                        {"4.9e-324", 0x1p-1074, 8},
                        {"0.1", 0x1.999999999999ap-4, 3},
                        {"1.8p1", 3, 5, kHex},
                        {"Ffp+3", 2040, 5, kHex},
                        {"-1p", -1, 2, kHex},
                        {"0x1p3", 0, 1, kHex},
                        {"1.fffffffffffffp1023", 0x1.fffffffffffffp1023, 20, kHex}};
  for (const Case& c : cases) {
    for (const Read read : kReads) {
      CAPTURE(c.text, read == kReads[0]);
      double value = 7;
      const char* last = c.text.data() + c.text.size();
      const auto [end, ec] = read(c.text.data(), last, value, c.format);
      CHECK(ec == std::errc{});
      CHECK(end == c.text.data() + c.used);
      CHECK(value == c.value);
    }
  }
}

TEST_CASE("inf and nan are read", "[real]") {
  for (const Read read : kReads) {
    for (const std::string text : {"inf", "INFINITY", "-inf", "nan", "nan(12)", "-NaN"}) {
      CAPTURE(text, read == kReads[0]);
      double value = 7;
      const auto [end, ec] =
          read(text.data(), text.data() + text.size(), value, std::chars_format::general);
      CHECK(ec == std::errc{});
      CHECK(end == text.data() + text.size());
      CHECK(
          (text.find_first_of("aA") == std::string::npos ? std::isinf(value) : std::isnan(value)));
      CHECK(std::signbit(value) == (text[0] == '-'));
    }
  }
}

TEST_CASE("what is no number, or none that a double holds, leaves the value", "[real]") {
  struct Bad {
    std::string text;
    std::errc ec;
    std::size_t used;
    std::chars_format format = std::chars_format::general;
  };
  const Bad bads[] = {{"", std::errc::invalid_argument, 0},
                      {"+1", std::errc::invalid_argument, 0},
                      {" 1", std::errc::invalid_argument, 0},
                      {"-", std::errc::invalid_argument, 0},
                      {"..5", std::errc::invalid_argument, 0},
                      {"e5", std::errc::invalid_argument, 0},
                      {"1e999", std::errc::result_out_of_range, 5},
                      {"-1e-400", std::errc::result_out_of_range, 7},
                      {"1p5000", std::errc::result_out_of_range, 6, kHex},
                      {"ap-5000", std::errc::result_out_of_range, 7, kHex}};
  for (const Bad& b : bads) {
    for (const Read read : kReads) {
      CAPTURE(b.text, read == kReads[0]);
      double value = 7;
      const auto [end, ec] = read(b.text.data(), b.text.data() + b.text.size(), value, b.format);
      CHECK(ec == b.ec);
      CHECK(end == b.text.data() + b.used);
      CHECK(value == 7);
    }
  }
}
