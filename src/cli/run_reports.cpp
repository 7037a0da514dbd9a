#include "src/cli/run_reports.hpp"

#include <filesystem>
#include <iostream>

#include "isa/error.hpp"
#include "src/atomic_file.hpp"
#include "src/cli/explain.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/python_command.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

std::string partial(const std::string& file) { return file + ".partial"; }

[[noreturn]] void cannot_write(const std::string& file) {
  throw isa::Error(isa::ErrorCode::kBadInput, "cannot write " + file);
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
  add("perfetto-flows", "with arrows from producers to the instructions that waited for them");
}

RunReports::RunReports(const Args& args) : args_(args) {
  const bool session = args.count("session") != 0 || args.count("html") != 0;
  if (session || args.count("explain") != 0 || args.count("accounting-json") != 0) {
    accounting_ = std::make_unique<Accounting>();
  }
  if (session) session_ = std::make_unique<Session>();
  const std::string file = text(args, "perfetto");
  if (file.empty()) return;
  trace_.open(partial(file), std::ios::binary);
  if (!trace_) cannot_write(file);
  perfetto_ = std::make_unique<Perfetto>(
      trace_, Perfetto::Options{.flows = args.count("perfetto-flows") != 0});
}

RunReports::~RunReports() {
  if (!trace_.is_open()) return;
  trace_.close();
  std::error_code ignored;
  std::filesystem::remove(partial(text(args_, "perfetto")), ignored);
}

void RunReports::observe(std::vector<models::Observer*>& observers) {
  if (perfetto_) observers.push_back(perfetto_.get());
  if (accounting_) observers.push_back(accounting_.get());
  if (session_) observers.push_back(session_.get());
}

void RunReports::finish_perfetto() {
  const std::string file = text(args_, "perfetto");
  trace_.close();
  std::error_code failed;
  if (trace_) std::filesystem::rename(partial(file), file, failed);
  if (!trace_ || failed) cannot_write(file);
}

void RunReports::save_session(const std::string& file, const Summary& summary,
                              const SimResult& result, const std::vector<WhatIf>& changes) const {
  nlohmann::ordered_json facts = {{"partial", result.partial}, {"summary", summary.json()}};
  facts["verdict"] = verdict(*accounting_, changes);
  for (const WhatIf& w : changes) {
    facts["what_if"].push_back({{"change", w.change}, {"end_fs", w.end}, {"gain", w.gain}});
  }
  session_->save(file, *accounting_, std::move(facts));
}

void RunReports::finish(const models::Config& config, const Summary& summary,
                        const SimResult& result, const MakeMemory& make_memory) {
  if (perfetto_) finish_perfetto();
  if (!accounting_) return;
  if (args_.count("accounting-json") != 0) {
    AtomicFile file(text(args_, "accounting-json"));
    file.write(accounting_json(*accounting_, true).dump() + "\n");
    file.commit();
  }
  std::vector<WhatIf> changes;
  if (args_.count("explain") != 0 || args_.count("html") != 0) {
    Progress progress("what if");
    changes = what_if(accounting_->program(), config, result.end, make_memory, [&](int n, int all) {
      progress.update(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(all));
    });
  }
  if (args_.count("session") != 0) save_session(text(args_, "session"), summary, result, changes);
  const std::string html = text(args_, "html");
  if (!html.empty()) {
    const std::string session = partial(html) + ".npz";
    save_session(session, summary, result, changes);
    const int code = call_python("nkisim_profile", {"report", session, "-o", html});
    std::error_code ignored;
    std::filesystem::remove(session, ignored);
    if (code != 0) cannot_write(html);
  }
  if (args_.count("explain") != 0) print_explanation(std::cout, *accounting_, changes);
}

}  // namespace nkisim::cli
