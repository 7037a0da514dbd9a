// Formats compiler passes and the events of a simulated run as messages of the log.

#include "src/log/run_log.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

namespace nkisim::log {
namespace {

using models::Fs;

std::string us(Fs fs) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f us", models::to_ns(fs) * 1e-3);
  return text;
}

std::string between(Fs from, Fs to) { return us(from) + " to " + us(to); }

std::string bytes(std::int64_t count) { return std::to_string(count) + " bytes"; }

// "tensor_copy of line 12"
std::string called(const isa::Inst* inst) {
  if (inst == nullptr) return "an instruction";
  std::string text(isa::spec(*inst).name);
  if (inst->loc.trace_line != 0) text += " of line " + std::to_string(inst->loc.trace_line);
  if (inst->loc.kernel_line != 0) {
    text += " of the kernel's line " + std::to_string(inst->loc.kernel_line);
  }
  return text;
}

class RunLog : public models::Observer {
 public:
  explicit RunLog(int rank) {
    if (rank >= 0) lead_ = "rank " + std::to_string(rank) + " ";
  }

  void on_start(const isa::Program& program, const models::Config& config) override {
    if (!on(Category::kDispatch, Level::kInfo)) return;
    say(Category::kDispatch, Level::kInfo,
        lead_ + "starts: " + std::to_string(program.insts().size()) + " instructions for " +
            std::to_string(program.cores()) + (program.cores() == 1 ? " core, " : " cores, ") +
            config.name);
  }

  void on_queue(const models::QueueName& queue) override {
    names_[{queue.core, queue.index}] = queue.name;
    if (queue.index < isa::kEngineCount || !on(Category::kDma, Level::kInfo)) return;
    say(Category::kDma, Level::kInfo, at(queue.core) + "ring " + queue.name);
  }

  void on_event(const models::PartEvent& event) override {
    ++parts_;
    if (on(Category::kWaits, Level::kDebug)) say_wait(event);
    if (!on(Category::kDispatch, Level::kDebug)) return;
    say(Category::kDispatch, Level::kDebug,
        at(event.core) + std::string(isa::name(event.part->opcode)) + " on " +
            std::string(isa::name(event.part->unit)) + ", " + between(event.start, event.end) +
            (event.part_index < 0 ? ", a wait before " : ", ") + called(event.inst));
  }

  void on_event(const models::DmaEvent& event) override {
    ++transfers_;
    if (!on(Category::kDma, Level::kDebug)) return;
    say(Category::kDma, Level::kDebug,
        at(event.core) + name(event.core, event.queue) + ": " + bytes(event.work->bytes) + " in " +
            std::to_string(event.packets) + " packets, asked for at " + us(event.trigger_start) +
            ", moved " + between(event.first_packet, event.last_packet) + ", seen at " +
            us(event.visible) + ", " + called(event.inst));
  }

  void on_event(const models::DmaLaneEvent& event) override {
    if (!on(Category::kDma, Level::kTrace)) return;
    say(Category::kDma, Level::kTrace,
        at(event.core) + name(event.core, event.queue) + " on DMA engine " +
            std::to_string(event.engine) + ": " + bytes(event.bytes) + " in " +
            std::to_string(event.packets) + " packets, " + between(event.start, event.end));
  }

  void on_event(const models::SemaphoreEvent& event) override {
    if (!on(Category::kWaits, Level::kTrace)) return;
    say(Category::kWaits, Level::kTrace,
        at(event.core) + "semaphore " + std::to_string(event.semaphore) + " is " +
            std::to_string(event.value) + " at " + us(event.time));
  }

  void on_event(const models::CollectiveEvent& event) override {
    if (!on(Category::kWorld, Level::kDebug)) return;
    const models::RankPart& part = *event.part;
    say(Category::kWorld, Level::kDebug,
        at(event.core) + std::string(models::name(part.kind)) + " " + std::to_string(part.id) +
            " by " + std::string(models::name(part.algorithm)) + " among " +
            std::to_string(part.group.size()) + " ranks, " + bytes(part.input_bytes) +
            ", asked for at " + us(event.trigger_start) + ", " + called(event.inst));
  }

  void on_end(const models::RunEnd& end) override {
    if (!on(Category::kDispatch, Level::kInfo)) return;
    say(Category::kDispatch, Level::kInfo,
        lead_ + (end.partial ? "stopped at " : "ended at ") + us(end.time) + ": " +
            std::to_string(parts_) + " parts of instructions, " + std::to_string(transfers_) +
            " transfers");
  }

 private:
  [[nodiscard]] std::string at(int core) const {
    return lead_ + "core " + std::to_string(core) + " ";
  }

  [[nodiscard]] std::string name(int core, models::QueueIndex queue) const {
    const auto found = names_.find({core, queue});
    if (found != names_.end()) return found->second;
    if (queue < isa::kEngineCount) return std::string(isa::name(static_cast<isa::Engine>(queue)));
    return "queue " + std::to_string(queue);
  }

  // For whom: who held the start up longest, in the order of models::Wait.
  void say_wait(const models::PartEvent& event) const {
    const models::Wait& w = event.wait;
    Fs at_time = w.ready, longest = 0;
    std::string whom;
    const auto charge = [&](Fs until, auto named) {
      until = std::min(until, event.start);
      if (until - at_time > longest) {
        longest = until - at_time;
        whom = named();
      }
      at_time = std::max(at_time, until);
    };
    if (w.producer != models::kNoQueue) {
      charge(w.producer_end, [&] { return name(event.core, w.producer); });
    }
    charge(w.awake, [&] {
      return w.semaphore < 0 ? std::string("a semaphore")
                             : "semaphore " + std::to_string(w.semaphore);
    });
    charge(w.port_free, [&] { return "the port that " + holder(w.port_holder) + " held"; });
    charge(event.start, [] { return std::string("its data path"); });
    if (longest == 0) return;
    say(Category::kWaits, Level::kDebug,
        at(event.core) + std::string(isa::name(event.part->unit)) + " waited " +
            us(event.start - w.ready) + " until " + us(event.start) + ", most for " + whom + ", " +
            called(event.inst));
  }

  [[nodiscard]] static std::string holder(isa::Engine engine) {
    return engine == isa::Engine::kAny ? "another engine" : std::string(isa::name(engine));
  }

  std::string lead_;
  std::map<std::pair<int, models::QueueIndex>, std::string> names_;
  std::uint64_t parts_ = 0, transfers_ = 0;
};

}  // namespace

void say_pass(const compiler::Compiled::Step& step) {
  const Level level = step.changed != 0 ? Level::kInfo : Level::kDebug;
  if (!on(Category::kCompiler, level)) return;
  const auto passes = compiler::pipeline();
  const auto pass = std::find_if(passes.begin(), passes.end(),
                                 [&](const compiler::Pass& p) { return p.name == step.pass; });
  std::string text = std::string(step.pass) + ": " + std::to_string(step.changed);
  if (pass != passes.end()) text += " " + std::string(pass->counts);
  if (!step.text.empty()) text += " (" + step.text + ")";
  say(Category::kCompiler, level, text);
}

std::unique_ptr<models::Observer> run_log(int rank) {
  const auto wanted = [](Category category, Level level) { return on(category, level); };
  const bool any = wanted(Category::kDispatch, Level::kInfo) ||
                   wanted(Category::kWaits, Level::kDebug) ||
                   wanted(Category::kDma, Level::kInfo) || wanted(Category::kWorld, Level::kDebug);
  return any ? std::make_unique<RunLog>(rank) : nullptr;
}

Watched::Watched(std::vector<models::Observer*> observers, int rank)
    : log_(run_log(rank)), observers_(std::move(observers)) {
  if (log_) observers_.push_back(log_.get());
}

}  // namespace nkisim::log
