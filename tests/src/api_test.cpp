// Tests the public C++ API (include/nkisim/nkisim.hpp), used as a client uses it.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <numeric>

#include "include/nkisim/nkisim.hpp"

namespace {

namespace api = nkisim::v1;

const std::vector<std::int64_t> kShape = {128, 64};
constexpr std::size_t kElements = 128 * 64;

/// y = x + `by`, of a tile that the compiler places.
api::Program adds(double by, const std::string& target = "trn2") {
  api::ProgramBuilder build(target, "adds");
  build.at("adds.py", 7);
  build.tensor({.name = "x", .shape = kShape, .role = api::Role::kInput});
  build.tensor({.name = "y", .shape = kShape, .role = api::Role::kOutput});
  build.tensor({.name = "t", .space = api::Space::kSbuf, .shape = kShape});
  build.add("dma_copy", {{"dst", "t"}, {"src", "x"}})
      .add("tensor_scalar", {{"dst", "t"}, {"data", "t"}, {"op0", "add"}, {"operand0", by}})
      .add("dma_copy", {{"dst", "y"}, {"src", "t"}});
  return build.finish();
}

std::vector<float> counted() {
  std::vector<float> x(kElements);
  std::iota(x.begin(), x.end(), 0.0F);
  return x;
}

api::Job job_on(const std::vector<float>& x) {
  api::Job job;
  job.inputs = {{"x", api::Array::of<float>(kShape, x)}};
  return job;
}

struct Recorder : api::Observer {
  void on_start(int rank) override { starts.push_back(rank); }
  void on_instruction(const api::InstructionEvent& e) override {
    if (!e.inserted) span(e.start, e.end);
    if (e.instruction == "tensor_scalar" && !e.inserted) {
      engine = e.engine;
      file = e.file;
      line = e.line;
      ran = {e.start, e.end};
    }
  }
  void on_transfer(const api::TransferEvent& e) override {
    span(e.triggered, e.end);
    moved.emplace_back(e.start, e.visible);
  }
  void on_end(int /*rank*/, api::Time at) override { end = at; }
  void span(api::Time start, api::Time stop) {
    first = std::min(first, start);
    last = std::max(last, stop);
  }
  api::Time first = std::numeric_limits<api::Time>::max(), last = 0;
  std::vector<int> starts;
  std::string engine, file;
  int line = 0;
  api::Time end = 0;
  std::pair<api::Time, api::Time> ran;
  std::vector<std::pair<api::Time, api::Time>> moved;
};

api::Error error_of(const auto& call) {
  try {
    call();
  } catch (const api::Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {"", {}};
}

}  // namespace

TEST_CASE("a built program computes its outputs and is observed", "[api]") {
  const std::vector<float> x = counted();
  Recorder seen;
  const api::Outcome out = api::run(adds(2.5), job_on(x), &seen);
  REQUIRE(out.ok());
  const std::vector<float> y = out.output("y").values<float>();
  REQUIRE(y.size() == kElements);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == x[i] + 2.5F);
  CHECK(out.instructions == 3);
  CHECK(seen.starts == std::vector<int>{0});
  CHECK(seen.file == "adds.py");
  CHECK(seen.line == 7);
  REQUIRE(seen.moved.size() == 2);
  // A load, the addition, a store: each begins when the one before has ended.
  CHECK(seen.moved[0].second <= seen.ran.first);
  CHECK(seen.ran.second <= seen.moved[1].first);
  CHECK(out.latency_us == Approx(api::to_us(seen.last - seen.first)));
  CHECK(out.metric("dma_transfer_count") == 2);
}

TEST_CASE("outputs that differ are an exit code, not an error", "[api]") {
  const std::vector<float> x = counted();
  api::Job job = job_on(x);
  std::vector<float> expected = x;
  for (float& e : expected) e += 1;
  expected[5] += 3;
  job.expected = {{"y", api::Array::of<float>(kShape, expected)}};
  const api::Outcome out = api::run(adds(1), job);
  CHECK(out.exit_code == 1);
  REQUIRE(out.mismatches.size() == 1);
  CHECK(out.mismatches[0].output == "y");
  CHECK(out.mismatches[0].elements == 1);
  CHECK(out.mismatches[0].largest == 3);
}

TEST_CASE("a program runs again for another machine and for time alone", "[api]") {
  const api::Program program = adds(1);
  api::Job job;
  job.values = false;
  const double first = api::run(program, job).latency_us;
  job.config = api::Config("trn2", {"dma.bytes_per_ns=1"});
  const double slow = api::run(program, job).latency_us;
  CHECK(slow > first);
  job.config.reset();
  CHECK(api::run(program, job).latency_us == first);
  CHECK(api::run(program, job).outputs.empty());
}

TEST_CASE("two ranks have outputs each", "[api]") {
  api::Job job = job_on(counted());
  job.ranks = 2;
  const api::Outcome out = api::run(adds(4), job);
  REQUIRE(out.outputs.size() == 2);
  CHECK(out.output("y", 1).values<float>()[9] == 13);
  CHECK(out.instructions == 6);
}

TEST_CASE("a program is saved in both forms and read again", "[api]") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("nkisim_api_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const api::Program program = adds(1);
  for (const char* name : {"p.jsonl", "p.nisa.gz"}) {
    const std::string file = (folder / name).string();
    program.save(file);
    const api::Program again = api::Program::read(file);
    CHECK(again.text() == program.text());
    CHECK(api::run(again, job_on(counted())).output("y").values<float>()[3] == 4);
  }
  std::filesystem::remove_all(folder);
  CHECK(program.instructions() == 3);
  CHECK(program.target() == "trn2");
  const auto tensors = program.tensors();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[1].role == api::Role::kOutput);
  CHECK(tensors[2].space == api::Space::kSbuf);
  CHECK(tensors[2].shape == kShape);
}

TEST_CASE("a wrong value is one error with its location", "[api]") {
  const api::Error bad = error_of([] {
    api::ProgramBuilder build;
    build.tensor({.name = "t", .space = api::Space::kSbuf, .shape = kShape, .address = 0});
    build.at("k.py", 12).add("memset", {{"dst", "t"}, {"value", "much"}});
    (void)build.finish();
  });
  CHECK(bad.facts().exit_code == 3);
  CHECK(std::string(bad.what()).find("memset") != std::string::npos);
  CHECK(std::string(bad.what()).find("value") != std::string::npos);

  const api::Error fits = error_of([] {
    api::ProgramBuilder build;
    build.tensor({.name = "t", .space = api::Space::kSbuf, .shape = {200, 4}, .address = 0});
    (void)build.finish();
  });
  CHECK(std::string(fits.what()).find("program:2") == 0);

  api::Job job = job_on(counted());
  job.inputs.at("x").bytes.pop_back();
  CHECK(error_of([&] { (void)api::run(adds(1), job); }).facts().rule == "data_size");
  job.inputs = {{"nothing", api::Array::of<float>(kShape, counted())}};
  CHECK(error_of([&] { (void)api::run(adds(1), job); }).facts().exit_code != 0);
  CHECK(error_of([] { api::Config("trn9"); }).facts().message.find("trn9") != std::string::npos);
  CHECK(error_of([] { api::Config("trn2", {"dma.nothing=1"}); }).facts().exit_code != 0);
  CHECK_THROWS_AS(api::Array::of<float>(kShape, counted()).values<std::int32_t>(),
                  std::invalid_argument);
}

TEST_CASE("a limit ends a run, which says so", "[api]") {
  api::ProgramBuilder build;
  build.tensor({.name = "t", .space = api::Space::kSbuf, .shape = kShape, .address = 0});
  for (int i = 0; i < 20000; ++i) build.add("memset", {{"dst", "t"}, {"value", i}});
  api::Job job;
  job.max_instructions = 100;
  const api::Outcome out = api::run(build.finish(), job);
  CHECK(out.instructions < 20000);
  CHECK(out.partial);
  CHECK(out.exit_code == 3);
}
