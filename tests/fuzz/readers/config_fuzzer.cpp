// Fuzzes the reader of machine descriptions (configs/*.json) with untrusted files.
#include "src/config/config.hpp"
#include "tests/fuzz/readers/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepted([&] { (void)load_config(file.path()); });
  return 0;
}
