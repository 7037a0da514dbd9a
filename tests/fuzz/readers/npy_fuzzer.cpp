// Fuzzes the reader of .npy files, the cast of their elements to every dtype, and the writer.
#include "src/files/files.hpp"
#include "tests/fuzz/readers/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  std::string bytes("\x93NUMPY", 6);
  bytes += fuzz::text_of(data, size);
  fuzz::accepted([&] {
    const NpyArray array = parse_npy(bytes, "fuzz");
    const NpyArray again = parse_npy(format_npy(array), "again");
    fuzz::require(again.shape == array.shape && again.data == array.data,
                  "an array reads back as another");
    for (std::size_t d = 0; d < isa::kDtypeCount; ++d) {
      const auto dtype = static_cast<isa::Dtype>(d);
      fuzz::accepted([&] { (void)to_dtype(array, dtype, "fuzz"); });
      (void)holds(array, dtype);
    }
  });
  const fuzz::MemoryFile file(bytes);
  fuzz::accepted([&] { (void)MappedNpy(file.path()).bytes().size(); });
  return 0;
}
