#include "src/cli/run_reports.hpp"

#include <filesystem>
#include <iostream>

#include "isa/error.hpp"
#include "src/atomic_file.hpp"
#include "src/cli/explain.hpp"
#include "src/cli/progress.hpp"

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
  add("perfetto", po::value<std::string>(), "write a Perfetto trace here");
  add("perfetto-flows", "with arrows from producers to the instructions that waited for them");
}

RunReports::RunReports(const Args& args) : args_(args) {
  if (args.count("explain") != 0 || args.count("accounting-json") != 0) {
    accounting_ = std::make_unique<Accounting>();
  }
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
}

void RunReports::finish_perfetto() {
  const std::string file = text(args_, "perfetto");
  trace_.close();
  std::error_code failed;
  if (trace_) std::filesystem::rename(partial(file), file, failed);
  if (!trace_ || failed) cannot_write(file);
}

void RunReports::explain(const models::Config& config, const SimResult& result,
                         const MakeMemory& make_memory) const {
  Progress progress("what if");
  const auto changes =
      what_if(accounting_->program(), config, result.end, make_memory, [&](int done, int all) {
        progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all));
      });
  progress.clear();
  print_explanation(std::cout, *accounting_, changes);
}

void RunReports::finish(const models::Config& config, const SimResult& result,
                        const MakeMemory& make_memory) {
  if (perfetto_) finish_perfetto();
  if (args_.count("accounting-json") != 0) {
    AtomicFile file(text(args_, "accounting-json"));
    file.write(accounting_json(*accounting_, true).dump() + "\n");
    file.commit();
  }
  if (args_.count("explain") != 0) explain(config, result, make_memory);
}

}  // namespace nkisim::cli
