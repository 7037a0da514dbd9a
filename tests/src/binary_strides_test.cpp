// Tests binary program files (traces) from elsewhere with extreme numbers: no stride leaves the
// memory.
#include <catch2/catch.hpp>
#include <limits>

#include "src/trace/trace_reader.hpp"
#include "src/trace/trace_writer.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;

namespace {

// As the format has integers: zigzag, then seven bits to a byte, the lowest first.
std::string packed(std::int64_t value) {
  auto rest = (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
  std::string out;
  for (; rest >= 128; rest >>= 7U) out += static_cast<char>((rest & 127U) | 128U);
  return out + static_cast<char>(rest);
}

std::string with_stride(std::int64_t stride) {
  constexpr std::int64_t kMarked = 123456789;  // found again in the bytes
  const TraceFile trace = read_trace_text(
      R"({"nisa":1,"target":"trn2"}
{"tensor":{"name":"x","dtype":"float32","shape":[256,64],"role":"input"}}
{"tensor":{"name":"s","space":"sbuf","dtype":"float32","shape":[128,64],"address":0}}
{"i":"dma_copy","dst":"s","src":{"tensor":"x[0:128]","dynamic":[{"register":3,"stride":)" +
          std::to_string(kMarked) + "}]}}\n",
      "t.jsonl");
  std::string bytes = format_trace(trace, TraceForm::kBinary);
  const auto at = bytes.find(packed(kMarked));
  REQUIRE(at != std::string::npos);
  return bytes.replace(at, packed(kMarked).size(), packed(stride));
}

std::string said_of(std::int64_t stride) {
  try {
    (void)read_trace_text(with_stride(stride), "t.nisa");
  } catch (const isa::Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a stride beyond all memory is refused on either side") {
  constexpr std::int64_t kMost = std::int64_t{1} << 36U;
  for (const std::int64_t good : {std::int64_t{1}, std::int64_t{-64}}) CHECK(said_of(good).empty());
  for (const std::int64_t good : {kMost, -kMost}) {
    CHECK_THAT(said_of(good), !Contains("stride out of range"));
  }
  for (const std::int64_t bad : {kMost + 1, -kMost - 1, std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::int64_t>::min()}) {
    CHECK_THAT(said_of(bad), Contains("stride out of range"));
  }
}
