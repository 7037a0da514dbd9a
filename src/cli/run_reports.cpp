#include "src/cli/run_reports.hpp"

#include <filesystem>

#include "isa/error.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/python_command.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

std::vector<WhatIf> simulate_changes(const Accounting& accounting, const models::Config& config,
                                     const SimResult& result, const MakeMemory& make_memory) {
  Progress progress("what if");
  return what_if(accounting.program(), config, result.end, make_memory, [&](int n, int all) {
    progress.update(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(all));
    return Interrupts::signal() == 0;
  });
}

}  // namespace

void add_report_options(po::options_description& named) {
  auto add = named.add_options();
  add("explain", "print where all the time went, the critical path and what would help most");
  add("accounting-json", po::value<std::string>(),
      "write the full time accounting, per instruction, opcode and source line, here");
  add("session", po::value<std::string>(),
      "save all events here (.npz) for `nkisim view`, `nkisim report` and neuron-profile");
  add("html", po::value<std::string>(), "write a report to open in a browser here");
  add("perfetto", po::value<std::string>(), "write a Perfetto trace here");
  add("chrome", po::value<std::string>(),
      "write the timeline as Chrome trace events (JSON) here; .gz compresses");
  add("perfetto-flows", "with arrows from producers to the instructions that waited for them");
}

ReportFiles report_files(const Args& args) {
  return {.accounting_json = text(args, "accounting-json"),
          .session = text(args, "session"),
          .perfetto = text(args, "perfetto"),
          .chrome = text(args, "chrome"),
          .flows = args.count("perfetto-flows") != 0,
          .accounting = args.count("explain") != 0,
          .events = args.count("html") != 0};
}

std::vector<WhatIf> finish_reports(const Args& args, Reports& reports, const models::Config& config,
                                   const Summary& summary, const SimResult& result,
                                   const MakeMemory& make_memory) {
  reports.write_files();
  if (reports.accounting() == nullptr) return {};
  const std::string session = text(args, "session"), html = text(args, "html");
  std::vector<WhatIf> changes;
  if (!result.partial && (args.count("explain") != 0 || !html.empty())) {
    changes = simulate_changes(*reports.accounting(), config, result, make_memory);
  }
  if (!session.empty()) reports.write_session(session, summary, result, changes);
  if (!html.empty()) {
    const std::string events = session.empty() ? html + ".partial.npz" : session;
    if (session.empty()) reports.write_session(events, summary, result, changes);
    const int code = call_python("nkisim_profile", {"report", events, "-o", html});
    std::error_code ignored;
    if (session.empty()) std::filesystem::remove(events, ignored);
    if (code != 0) throw isa::Error(isa::ErrorCode::kBadInput, "cannot write " + html);
  }
  return changes;
}

}  // namespace nkisim::cli
