// Tests jobs (simulation runs described as data) and their outcomes as JSON, and the run of a job.
#include "src/job/job.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace {

using namespace nkisim;
using Json = nlohmann::ordered_json;

// A trace of one core that copies x to y.
std::string copies(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("nkisim-job-" + name + ".jsonl");
  std::ofstream(path) << R"({"nisa": 1, "target": "trn2", "name": "copies"}
{"tensor": {"name": "x", "dtype": "float32", "shape": [4, 8], "role": "input", "data": {"generator": "arange"}}}
{"tensor": {"name": "y", "dtype": "float32", "shape": [4, 8], "role": "output"}}
{"i": "dma_copy", "dst": "y", "src": "x"}
)";
  return path.string();
}

const Json kEvery = Json::parse(R"({
  "nkisim_job": 1, "id": [7, "a"], "trace": "k.nisa", "target": "trn2", "config": "mine.json",
  "set": ["dma.bytes_per_ns=13.6"], "switches": {"schedule": "program"}, "over_capacity": true,
  "ranks": 4, "ring_order": "reverse", "any_world": true, "fold": false, "want": "values",
  "reasons": false, "full_confidence": true, "recorded": "data.npz",
  "inputs": "in.npz", "arrays": {"arg0": "a.npy"}, "roots": ["data"],
  "outputs": "out.npz", "output_arrays": "out", "expect": "e.npz", "expect_subset": true,
  "rtol": 0.5, "atol": 0.25, "rel_l2": 0.125, "budgets": ["total_time<=1us"],
  "allow_unwritten": true, "allow_races": true, "stochastic_rounding": 0, "max_time": "5m",
  "max_instructions": "1000", "max_memory": "1G", "summary_json": "s.json", "html": "p.html",
  "accounting_json": "a.json", "session": "s.npz", "perfetto": "p.pftrace", "chrome": "c.json",
  "perfetto_flows": true})");

}  // namespace

TEST_CASE("a job is the same after JSON") {
  CHECK(to_json(job_of(kEvery)) == kEvery);
  const Json least = {{"nkisim_job", 1}, {"trace", "k.nisa"}};
  CHECK(to_json(job_of(least)) == least);
  const Job job = job_of(least);
  CHECK(job.values);
  CHECK(job.time);
  CHECK(job.fold);
  CHECK_FALSE(job.ranks.has_value());
}

TEST_CASE("a wrong job is an error that names the field") {
  const auto message = [](const std::string& changes) {
    Json json = {{"nkisim_job", 1}, {"trace", "k.nisa"}};
    json.update(Json::parse(changes));
    try {
      (void)job_of(json);
    } catch (const isa::Error& e) {
      CHECK(e.code() == isa::ErrorCode::kUsage);
      return e.message();
    }
    return std::string("none");
  };
  CHECK(message(R"({"nkisim_job": 2})") == "the job's nkisim_job is 2; 1 is required");
  CHECK(message(R"({"trace": ""})") == "the job's trace is \"\"; the name of a file is required");
  CHECK(message(R"({"want": "speed"})") ==
        "the job's want is \"speed\"; all, values or time is required");
  CHECK(message(R"({"ranks": -1})") == "the job's ranks is -1; a whole number is required");
  CHECK(message(R"({"ranks": 5000000000})").find("a whole number") != std::string::npos);
  CHECK(message(R"({"rtol": -1})").find("at least 0") != std::string::npos);
  CHECK(message(R"({"set": "a=b"})").find("a list of texts") != std::string::npos);
  CHECK(message(R"({"arrays": {"a": 1}})").find("texts by name") != std::string::npos);
  CHECK(message(R"({"fold": 1})").find("true or false") != std::string::npos);
  CHECK(message(R"({"colour": "red"})") ==
        "the job's colour is \"red\"; a field that jobs have is required");
  CHECK(message(R"({"switches": {"no_such": "on"}})").find("a switch") != std::string::npos);
  CHECK_THROWS_AS(job_of(Json::parse("[1]")), isa::Error);
}

TEST_CASE("an outcome in JSON says what the run was") {
  Programs programs(2);
  Job job{.id = "x", .trace = copies("outcome"), .budgets = {"total_time<=1ms"}};
  const Json alone = to_json(run(job, programs));
  CHECK(alone.at("exit_code") == 0);
  CHECK(alone.at("id") == "x");
  CHECK(alone.at("instructions") == 1);
  CHECK(alone.at("budgets").at(0).at("kept") == true);
  job.ranks = 2;
  const Json world = to_json(run(job, programs));
  CHECK(world.at("ranks").size() == 2);
  CHECK(world.at("ranks").at(1).at("values_of") == 0);
  // Ranks that never meet take the time of one.
  CHECK(world.at("latency_us") == alone.at("latency_us"));
  job = {.id = 3, .trace = "/no/such.jsonl"};
  const Json error = to_json(run(job, programs));
  CHECK(error.at("exit_code") == 3);
  CHECK(error.at("error").at("rule") == "file_unreadable");
}

TEST_CASE("a kept program gives what a fresh one gives, for each machine") {
  const std::string trace = copies("kept");
  Programs kept(2);
  std::vector<double> latencies;
  for (const char* rate : {"1", "27.2", "1", "2"}) {
    const Job job{.trace = trace, .set = {std::string("dma.bytes_per_ns=") + rate}};
    Programs fresh;
    const Json found = to_json(run(job, kept)), own = to_json(run(job, fresh));
    CHECK(found == own);
    latencies.push_back(found.at("latency_us"));
  }
  CHECK(latencies[0] == latencies[2]);
  CHECK(latencies[0] > latencies[3]);
  CHECK(latencies[3] > latencies[1]);
}

// Each run with values warns of a lost result, also where a run without them compiled the program.
TEST_CASE("a kept program gives its warnings to every run with values") {
  const auto path = std::filesystem::temp_directory_path() / "nkisim-job-lost.jsonl";
  std::ofstream(path) << R"({"nisa": 1, "target": "trn2", "name": "lost", "addresses": "open"}
{"tensor": {"name": "x", "dtype": "float32", "shape": [4, 8], "role": "input", "data": {"generator": "arange"}}}
{"tensor": {"name": "z", "dtype": "float32", "shape": [4, 8], "role": "input", "data": {"generator": "ones"}}}
{"tensor": {"name": "y", "dtype": "float32", "shape": [4, 8], "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [4, 8]}}
{"i": "dma_copy", "dst": "t", "src": "x"}
{"i": "dma_copy", "dst": "t", "src": "z"}
{"i": "dma_copy", "dst": "y", "src": "t"}
)";
  Programs kept(2);
  for (const bool values : {false, true, false, true}) {
    const Job job{.trace = path.string(), .values = values};
    Programs fresh;
    const Outcome found = run(job, kept);
    CHECK(to_json(found) == to_json(run(job, fresh)));
    CHECK(found.warnings.size() == (values ? 1U : 0U));
  }
}

TEST_CASE("a program whose file has changed is read again") {
  const std::string trace = copies("changed");
  Programs programs(2);
  CHECK(run({.trace = trace}, programs).ranks.front().instructions == 1);
  std::ofstream(trace, std::ios::app) << "{\"i\": \"dma_copy\", \"dst\": \"y\", \"src\": \"x\"}\n";
  CHECK(run({.trace = trace}, programs).ranks.front().instructions == 2);
}
