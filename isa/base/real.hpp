// Reads floating-point numbers from text with the interface of std::from_chars.
#pragma once

#include <charconv>

namespace nkisim::isa {

/// std::from_chars for a double. libc++ has it only since its release 20.
std::from_chars_result read_real(const char* first, const char* last, double& value,
                                 std::chars_format format = std::chars_format::general);

/// The same by strtod in the C locale, which every system has: what read_real is without a
/// std::from_chars of its own. Formats: general and hex.
std::from_chars_result read_real_by_strtod(const char* first, const char* last, double& value,
                                           std::chars_format format = std::chars_format::general);

}  // namespace nkisim::isa
