// Writes JSON piece by piece, without building a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nkisim {

/// `text` as a JSON string literal, quotes included.
void append_json_string(std::string& out, std::string_view text);
/// Shortest text that reads back as the same double; "inf", "-inf" and "nan" as strings.
void append_json_real(std::string& out, double value);
void append_json_int(std::string& out, std::int64_t value);

}  // namespace nkisim
