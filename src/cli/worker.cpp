// Implements `nkisim worker`, one long-lived process that reads simulation jobs (JSON) and writes
// their outcomes, one a line.
#include <cstdio>
#include <iostream>
#include <optional>

#include "isa/host/host.hpp"
#include "isa/machine/large_pages.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/job/job.hpp"

namespace nkisim::cli {
namespace {
namespace of_worker {

namespace po = boost::program_options;

constexpr std::size_t kLongest = std::size_t{1} << 24U;  // of a line
constexpr int kDeepest = 8;

void options(po::options_description& named, po::positional_options_description& /*positional*/,
             po::options_description& /*hidden*/) {
  add_options(named, "worker");
}

// Keeps freed memory for the next run: asking the host for it again costs more than most runs.
void keep_memory() {
  isa::host::keep_freed_memory();
  isa::prefer_large_pages();
}

// The next line; none at the end. One that is too long comes as far as it may.
std::optional<std::string> next_line() {
  std::string line;
  bool any = false;
  for (int c = getc_unlocked(stdin); c != EOF; c = getc_unlocked(stdin)) {
    any = true;
    if (c == '\n') break;
    if (line.size() <= kLongest) line += static_cast<char>(c);
  }
  if (!any) return std::nullopt;
  return line;
}

Outcome answer(const std::string& line, Programs& programs) {
  nlohmann::ordered_json id;
  try {
    if (line.size() > kLongest) {
      isa::fail(isa::Rule::option_value, "a line", std::to_string(line.size()) + " bytes or more",
                "at most " + std::to_string(kLongest));
    }
    const auto shallow = [](int depth, auto /*event*/, auto& /*value*/) {
      if (depth <= kDeepest) return true;
      isa::fail(isa::Rule::option_value, "a line", "nested deeper", std::to_string(kDeepest));
    };
    const auto json = nlohmann::ordered_json::parse(line, shallow, false);
    if (json.is_discarded()) isa::fail(isa::Rule::option_value, "a line", "no JSON", "a job");
    if (json.is_object() && json.contains("id")) id = json.at("id");
    return nkisim::run(job_of(json), programs);
  } catch (const isa::Error& e) {
    return failed(id, e);
  }
}

int run(const Args& args) {
  keep_memory();
  Programs programs(args["keep"].as<std::size_t>());
  while (const auto line = next_line()) {
    if (line->find_first_not_of(" \t\r\n") == std::string::npos) continue;
    std::cout << to_json(answer(*line, programs))
                     .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n'
              << std::flush;
  }
  return kOk;
}

}  // namespace of_worker
}  // namespace

const Command& worker_command() {
  static const Command kCommand = {
      "worker",
      "run jobs from standard input, a line of JSON each",
      "nkisim worker [options]",
      "  echo '{\"nkisim_job\": 1, \"trace\": \"traces/softmax.jsonl\"}' | nkisim worker\n",
      "Each line is a job and is answered by a line, its outcome; what is no job is answered by "
      "an\n"
      "error. docs/jobs.md has the fields of both.\n",
      of_worker::options,
      of_worker::run};
  return kCommand;
}

}  // namespace nkisim::cli
