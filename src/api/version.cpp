// Implements version() of the public C++ API.

#include "include/nkisim/nkisim.hpp"

namespace nkisim::v1 {

std::string version() { return NKISIM_VERSION; }

}  // namespace nkisim::v1
