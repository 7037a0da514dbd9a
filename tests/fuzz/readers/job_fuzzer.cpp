// Fuzzes the reader of simulation jobs (lines of JSON): a job must survive a round trip.
#include "src/job/job.hpp"
#include "tests/fuzz/readers/reader.hpp"

namespace {

using nlohmann::ordered_json;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  const auto shallow = [](int depth, auto /*event*/, auto& /*value*/) {
    if (depth > 8) isa::fail(isa::Rule::option_value, "a line", "nested deeper", "8");
    return true;
  };
  fuzz::accepted([&] {
    const auto json = ordered_json::parse(fuzz::text_of(data, size), shallow, false);
    if (json.is_discarded()) return;
    const ordered_json once = to_json(job_of(json));
    fuzz::require(to_json(job_of(once)) == once, "what was written reads back as another");
  });
  return 0;
}
