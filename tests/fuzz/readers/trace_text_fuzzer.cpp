// Fuzzes the reader of instruction files (traces) in text form (JSON Lines).
#include "tests/fuzz/readers/read_trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nkisim::fuzz::read_fuzzed_trace(nkisim::fuzz::text_of(data, size));
  return 0;
}
