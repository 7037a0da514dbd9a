// Tests the fast path for a DMA transfer while no other runs: it ends as the packet model says.
#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <utility>

#include "models/dma/dma_rings.hpp"
#include "models/memory/hbm.hpp"
#include "models/sim_session.hpp"
#include "src/config/config_json.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

// One transfer as it is handed in, and what came of it.
struct Job {
  Fs at = 0, first_packet = 0;  // handed in at, after the job before; ... and after that
  QueueIndex queue = 5;
  isa::DmaWork work = {};
};
struct Outcome {
  std::size_t job = 0;
  Fs first = 0, last = 0, visible = 0;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << "job " << o.job << " [" << o.first << ", " << o.last << "] " << o.visible;
}

isa::DmaWork load(std::int64_t bytes_per_row, std::int64_t rows = 128) {
  return {.src = isa::Space::kHbm,
          .dst = isa::Space::kSbuf,
          .bytes = rows * bytes_per_row,
          .descriptors = rows,
          .descriptor_bytes = bytes_per_row,
          .rows = rows};
}

// Hands jobs to the DMA engines at their times.
class Driver : public sc_core::sc_module, private dma_core_if {
 public:
  Driver(sc_core::sc_module_name name, const Config& config, Hbm& hbm, const std::vector<Job>& jobs,
         bool fast_path)
      : sc_module(name),
        config_(config),
        jobs_(jobs),
        operations_(jobs.size()),
        forms_(jobs.size()),
        dma_("dma", {}, config.dma, {"q5", "q6", "q7"}, {.fast_path = fast_path}),
        due_(jobs.empty() ? kNever : jobs.front().at) {
    dma_.hbm.bind(hbm);
    dma_.core.bind(*this);
    for (QueueIndex q = 5; q < 8; ++q) dma_.number("q" + std::to_string(q), q);
    SC_HAS_PROCESS(Driver);
    SC_METHOD(step);
    sensitive << wake_;
  }
  std::vector<Outcome> outcomes;
  std::vector<Fs> backlogs;  // as they were asked for

 private:
  void step() {
    const Fs now = SimSession::now();
    dma_.step(now);
    for (; due_ <= now; ++next_, due_ = next_ < jobs_.size() ? now + jobs_[next_].at : kNever) {
      submit(now);
    }
    const Fs next = std::min(due_, dma_.next());
    if (next != kNever) wake_.notify(SimSession::time(std::max(next, now) - now));
  }
  void submit(Fs now) {
    const Job& job = jobs_[next_];
    Operation& op = operations_[next_];
    forms_[next_].expansion.dma = job.work;
    op.form = &forms_[next_];
    op.step.inst = &inst_;
    op.queue = job.queue;
    dma_.submit(op, config_.dma.dge(isa::DgeMode::kHwdge), now + job.first_packet);
    if (next_ % 7 == 6) backlogs.push_back(dma_.backlog(job.queue, 4096));
  }
  [[nodiscard]] Fs now() const override { return SimSession::now(); }
  void dma_sooner() override {}  // within step() alone
  void dma_update(Transfer& /*t*/, int /*engine*/) override {}
  void dma_share(const Transfer& /*t*/, const LanePlan& /*p*/, const LaneDone& /*d*/) override {}
  void dma_packet(const Transfer& /*t*/, int /*engine*/, const PacketTime& /*p*/) override {}
  void dma_done(Transfer& t) override {
    outcomes.push_back({static_cast<std::size_t>(t.op - &operations_.front()), t.first_packet,
                        t.last_packet, t.visible});
  }
  const Config& config_;
  const std::vector<Job>& jobs_;
  std::vector<Operation> operations_;
  std::vector<Form> forms_;
  isa::Inst inst_;
  DmaRings dma_;
  sc_core::sc_event wake_;
  std::size_t next_ = 0;
  Fs due_;  // the next job
};

struct Run {
  std::vector<Outcome> outcomes;
  std::vector<Fs> backlogs;
};

Run run(const Config& config, const std::vector<Job>& jobs, bool fast_path) {
  SimSession session;
  Hbm hbm(config.hbm, 0, 1);
  Driver driver("driver", config, hbm, jobs, fast_path);
  session.run();
  return {driver.outcomes, driver.backlogs};
}

std::vector<Job> random_jobs(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  const std::int64_t widths[] = {16, 256, 512, 1024, 2048, 8192};
  const std::int64_t rows[] = {128, 128, 128, 40, 1};
  const Fs pauses[] = {0, 20'000'000, 300'000'000, 1'000'000'000, 6'000'000'000};
  const std::int64_t usual = pick(6), pause = pick(5), queues = 1 + pick(3);
  std::vector<Job> jobs(200);
  for (Job& job : jobs) {
    job.at = pick(3) == 0 ? pauses[pick(5)] : pick(pauses[pause] + 1);
    job.first_packet = pick(4) == 0 ? pick(2'000'000'000) : 1'500'000'000;
    job.queue = static_cast<QueueIndex>(5 + (pick(10) == 0 ? pick(queues) : 0));
    job.work = load(widths[pick(3) == 0 ? pick(6) : usual], rows[pick(5)]);
    if (pick(4) == 0) std::swap(job.work.src, job.work.dst);
  }
  return jobs;
}

}  // namespace

TEST_CASE("transfers that are alone take the time that the engines say") {
  for (const char* target : {"trn1", "trn2", "trn3"}) {
    const Config config = load_config(target);
    for (unsigned seed = 1; seed <= 100; ++seed) {
      INFO(target << ", seed " << seed);
      const std::vector<Job> jobs = random_jobs(seed);
      const Run fast = run(config, jobs, true), slow = run(config, jobs, false);
      CHECK(fast.outcomes.size() == jobs.size());
      CHECK(fast.outcomes == slow.outcomes);
      CHECK(fast.backlogs == slow.backlogs);
    }
  }
}
