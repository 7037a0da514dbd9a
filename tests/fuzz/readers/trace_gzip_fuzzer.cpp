// Fuzzes the reader of compressed files, which other readers use for lines and numbers.
#include "src/files/byte_reader.hpp"
#include "tests/fuzz/readers/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  std::string bytes("\x1f\x8b\x08", 3);
  bytes += fuzz::text_of(data, size);
  fuzz::accepted([&] {
    ByteReader lines = ByteReader::from_memory(bytes, "fuzz");
    std::string_view line;
    while (lines.read_line(line))
      fuzz::require(line.find('\n') == line.npos, "a line has two lines");
    fuzz::require(lines.at_end(), "a file goes on after its last line");
  });
  fuzz::accepted([&] {
    ByteReader numbers = ByteReader::from_memory(bytes, "fuzz");
    while (!numbers.at_end()) (void)numbers.read_varint();
  });
  return 0;
}
