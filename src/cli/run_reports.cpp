#include "src/cli/run_reports.hpp"

#include <filesystem>

#include "isa/error.hpp"

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
  add("perfetto", po::value<std::string>(), "write a Perfetto trace here");
  add("perfetto-flows", "with arrows from producers to the instructions that waited for them");
}

RunReports::RunReports(const Args& args) : args_(args) {
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
}

void RunReports::finish() {
  if (!perfetto_) return;
  const std::string file = text(args_, "perfetto");
  trace_.close();
  std::error_code failed;
  if (trace_) std::filesystem::rename(partial(file), file, failed);
  if (!trace_ || failed) cannot_write(file);
}

}  // namespace nkisim::cli
