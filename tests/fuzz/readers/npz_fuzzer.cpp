// Fuzzes the reader of .npz files and their use as the expected values of a program.
#include "src/files/files.hpp"
#include "src/run/golden.hpp"
#include "src/trace/trace.hpp"
#include "tests/fuzz/readers/reader.hpp"

namespace {

constexpr std::string_view kProgram = R"({"nisa":1,"target":"trn2"}
{"tensor":{"name":"x","space":"hbm","dtype":"float32","shape":[2,3],"role":"input"}}
{"tensor":{"name":"y","space":"hbm","dtype":"bfloat16","shape":[2,3],"role":"output"}}
{"tensor":{"name":"n","space":"hbm","dtype":"int32","shape":[1],"role":"output"}}
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  static const TraceFile kTrace = read_trace_text(kProgram, "program");
  static isa::Memory memory(*kTrace.program);
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    for (const auto& [key, array] : read_npz(file.path())) {
      fuzz::require(static_cast<std::uint64_t>(array.elements()) <= array.data.size(),
                    "an array has more elements than bytes");
    }
  });
  fuzz::accepted([&] { (void)read_npz(file.path(), "x", 64); });
  fuzz::accepted([&] {
    const auto golden = read_golden(*kTrace.program, file.path());
    (void)compare(*kTrace.program, memory, golden, {});
    (void)left_out(*kTrace.program, golden);
  });
  return 0;
}
