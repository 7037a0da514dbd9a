// Finds the known name that a misspelt name probably means, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nkisim::isa {

/// Letters to change, insert or delete to get from one to the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
/// The name closest to `wrong`, if any is close enough to be meant; otherwise empty.
[[nodiscard]] std::string_view nearest(std::string_view wrong,
                                       const std::vector<std::string_view>& names);
/// "; did you mean x?" or nothing.
[[nodiscard]] std::string suggest(std::string_view wrong,
                                  const std::vector<std::string_view>& names);

}  // namespace nkisim::isa
