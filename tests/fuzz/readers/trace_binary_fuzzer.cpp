// Fuzzes the reader of binary instruction files (traces).
#include "src/trace/trace_binary.hpp"
#include "tests/fuzz/readers/read_trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(nkisim::binary::kMagic);
  bytes += nkisim::binary::kVersion;
  bytes += nkisim::fuzz::text_of(data, size);
  nkisim::fuzz::read_fuzzed_trace(bytes);
  return 0;
}
