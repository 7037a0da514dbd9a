// Reads floating-point numbers, with strtod where the standard library's from_chars cannot.

#include "isa/base/real.hpp"

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#if __has_include(<xlocale.h>)
#include <xlocale.h>  // where macOS has strtod_l
#else
#include <locale.h>  // and newlocale, which are POSIX's
#endif

namespace nkisim::isa {
namespace {

bool is_digit(char c, bool hex) {
  const char low = static_cast<char>(c | 0x20);
  return (c >= '0' && c <= '9') || (hex && low >= 'a' && low <= 'f');
}

bool starts_without_case(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if ((text[i] | 0x20) != word[i]) return false;
  }
  return true;
}

// The length of a word for no finite number in `text`, after its sign; 0: none.
std::size_t word_extent(std::string_view text) {
  for (const std::string_view word : {"infinity", "inf"}) {
    if (starts_without_case(text, word)) return word.size();
  }
  if (!starts_without_case(text, "nan")) return 0;
  if (text.size() < 4 || text[3] != '(') return 3;
  const std::size_t end =
      text.find_first_not_of("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 4);
  return end != std::string_view::npos && text[end] == ')' ? end + 1 : 3;
}

// The same for digits with a point and an exponent.
std::size_t digits_extent(std::string_view text, bool hex) {
  std::size_t at = 0, digits = 0;
  for (bool point = false; at < text.size(); ++at) {
    if (text[at] == '.' && !point) {
      point = true;
    } else if (is_digit(text[at], hex)) {
      ++digits;
    } else {
      break;
    }
  }
  if (digits == 0) return 0;
  if (at < text.size() && (text[at] | 0x20) == (hex ? 'p' : 'e')) {
    std::size_t end = at + 1;
    if (end < text.size() && (text[end] == '-' || text[end] == '+')) ++end;
    const std::size_t first = end;
    while (end < text.size() && is_digit(text[end], false)) ++end;
    if (end > first) at = end;
  }
  return at;
}

// True if a number has a digit other than zero.
bool has_digit(std::string_view text, bool hex) {
  return text.find_first_of(hex ? "123456789abcdefABCDEF" : "123456789") <
         std::min(text.find_first_of(hex ? "pP" : "eE"), text.size());
}

}  // namespace

std::from_chars_result read_real_by_strtod(const char* first, const char* last, double& value,
                                           std::chars_format format) {
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
  const bool hex = format == std::chars_format::hex, minus = first != last && *first == '-';
  const char* begin = first + (minus ? 1 : 0);
  const std::string_view text(begin, static_cast<std::size_t>(last - begin));
  const std::size_t word = word_extent(text);
  const std::size_t size = word > 0 ? word : digits_extent(text, hex);
  if (size == 0) return {first, std::errc::invalid_argument};
  const char* end = begin + size;
  const std::string number = (hex && word == 0 ? "0x" : "") + std::string(begin, size);
  const double read = strtod_l(number.c_str(), nullptr, kPlain);
  if (word == 0 && (std::isinf(read) || (read == 0 && has_digit(text.substr(0, size), hex)))) {
    return {end, std::errc::result_out_of_range};
  }
  value = minus ? -read : read;
  return {end, std::errc{}};
}

std::from_chars_result read_real(const char* first, const char* last, double& value,
                                 std::chars_format format) {
#ifdef __GLIBCXX__
  return std::from_chars(first, last, value, format);
#else
  return read_real_by_strtod(first, last, value, format);
#endif
}

}  // namespace nkisim::isa
