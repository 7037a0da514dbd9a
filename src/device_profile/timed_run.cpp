// Makes a TimedRun, one side of a comparison, from a device profile or from a simulated run.
#include <algorithm>
#include <cmath>
#include <map>

#include "isa/base/stable_order.hpp"
#include "src/device_profile/profile_body.hpp"
#include "src/device_profile/profile_diff.hpp"
#include "src/run/simulation.hpp"

namespace nkisim {
namespace {

constexpr int kDmaEngines = 16;

// A label "name#key" as import_profile makes it.
void split_label(const isa::Inst& inst, TimedInst& out) {
  if (inst.label == nullptr) return;
  const std::size_t hash = inst.label->rfind('#');
  out.name = inst.label->substr(0, hash);
  if (hash != std::string::npos) out.key = inst.label->substr(hash + 1);
}

// Puts the first instruction at 0 and packets in order.
void normalise(TimedRun& run) {
  double first = HUGE_VAL;
  for (const TimedInst& i : run.instructions) first = std::min(first, i.start);
  if (!std::isfinite(first)) first = 0;
  for (TimedInst& i : run.instructions) i.start -= first;
  for (TimedPacket& p : run.packets) p.start -= first;
  isa::sort_stably(run.packets,
                   [](const TimedPacket& a, const TimedPacket& b) { return a.start < b.start; });
}

class Recorder : public models::Observer {
 public:
  Recorder(const isa::Program& program, TimedRun& run) : program_(program), run_(run) {}

  void on_queue(const models::QueueName& q) override { queues_[{q.core, q.index}] = q.name; }
  void on_event(const models::PartEvent& e) override {
    TimedInst i;
    split_label(*e.inst, i);
    i.opcode = program_.opcode_name(e.part->opcode);
    i.unit = e.part->unit;
    i.core = e.core;
    i.start = models::to_ns(e.start);
    i.duration = models::to_ns(e.end - e.start);
    const bool waited = e.inst->sync != nullptr && !e.inst->sync->waits.empty();
    if (waited && e.part_index == 0) i.wait = models::to_ns(e.start - e.wait.ready);
    order_.push_back({e.sequence, e.part_index});
    run_.instructions.push_back(std::move(i));
  }
  void on_event(const models::DmaPacketEvent& e) override {
    run_.packets.push_back({.queue = queues_[{e.core, e.queue}],
                            .core = e.core,
                            .engine = e.engine % kDmaEngines,
                            .start = models::to_ns(e.start),
                            .duration = models::to_ns(e.end - e.start),
                            .bytes = e.bytes});
  }
  [[nodiscard]] bool wants_packets() const override { return true; }

  /// Events come in order of their ends; comparisons want program order.
  void sort() {
    const std::vector<std::size_t> index = isa::stable_order(
        order_.size(), [this](std::size_t a, std::size_t b) { return order_[a] < order_[b]; });
    std::vector<TimedInst> sorted;
    sorted.reserve(index.size());
    for (const std::size_t i : index) sorted.push_back(std::move(run_.instructions[i]));
    run_.instructions = std::move(sorted);
  }

 private:
  const isa::Program& program_;
  TimedRun& run_;
  std::map<std::pair<int, models::QueueIndex>, std::string> queues_;
  std::vector<std::pair<std::uint64_t, int>> order_;
};

}  // namespace

TimedRun timed_run(const HwProfile& profile) {
  TimedRun run;
  run.name = profile.file;
  for (const BodyInstruction& b : select_body(profile, false).instructions) {
    const HwInstruction& i = *b.inst;
    TimedInst t{.key = instruction_key(i),
                .name = i.name,
                .opcode = i.opcode,
                .unit = i.unit,
                .core = i.core,
                .start = i.start,
                .duration = i.duration};
    // The field means something only where a compute instruction waits for a semaphore.
    const bool waits = std::any_of(b.operands.waits.begin(), b.operands.waits.end(),
                                   [](const ProfileWait& w) { return !w.runtime; });
    if (waits && i.wait && is_data_path(i.opcode) && !b.dma) t.wait = *i.wait;
    run.instructions.push_back(std::move(t));
  }
  for (const HwPacket& p : profile.packets) {
    if (!is_payload(p)) continue;
    run.packets.push_back({p.queue, p.core, p.engine, p.start, p.duration, p.bytes});
  }
  normalise(run);
  return run;
}

TimedRun timed_run(const TraceFile& trace, const models::Config& config) {
  TimedRun run;
  run.name = trace.program->trace_file();
  Recorder recorder(*trace.program, run);
  simulate(*trace.program, config, nullptr, {&recorder});
  recorder.sort();
  normalise(run);
  return run;
}

double TimedRun::total() const {
  double end = 0;
  for (const TimedInst& i : instructions) {
    if (is_data_path(i.opcode)) end = std::max(end, i.start + i.duration);
  }
  for (const TimedPacket& p : packets) end = std::max(end, p.start + p.duration);
  return end;
}

}  // namespace nkisim
