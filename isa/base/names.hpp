// Helps to look up operator and dtype names in the tables that are made from the .def lists.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace nkisim::isa {

/// `text` with A-Z as a-z.
[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// True if `word` is one of the blank-separated words of `list`.
[[nodiscard]] inline bool contains_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace nkisim::isa
