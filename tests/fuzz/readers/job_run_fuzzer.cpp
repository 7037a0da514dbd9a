// Fuzzes a whole run of a program file: compiled, checked for races, run without and with timing,
// under limits. The input's last byte selects the kind of run.
#include "src/job/job.hpp"
#include "src/trace/trace.hpp"
#include "tests/fuzz/readers/reader.hpp"

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 20U;

bool small(std::string_view trace) {
  using namespace nkisim;
  std::int64_t elements = 0;
  return fuzz::accepted([&] {
           const TraceFile read = read_trace_text(trace, "fuzz");
           for (const isa::Tensor& t : read.program->tensors()) elements += t.elements();
         }) &&
         elements <= kMostElements;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  if (size < 2) return 0;
  const std::string_view trace = fuzz::text_of(data, size - 1);
  if (!small(trace)) return 0;
  const unsigned how = data[size - 1];
  Programs programs;
  programs.provide("fuzz", std::string(trace));
  Job job;
  job.trace = "fuzz";
  job.values = (how & 1U) != 0;
  job.time = (how & 2U) != 0 || !job.values;
  job.allow_unwritten = (how & 4U) != 0;
  job.allow_races = (how & 8U) != 0;
  if ((how & 16U) != 0) job.switches["schedule"] = "list";
  if ((how & 32U) != 0) job.ranks = 2;
  job.most = {"2", "2000", "256M"};
  const Outcome outcome = run(job, programs);
  if (outcome.exit_code == kInternal) fuzz::wrong(outcome.error.dump());
  return 0;
}
