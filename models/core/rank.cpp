// Lets the cores of a rank wait for one another, and reports what blocks a deadlocked rank.
#include "models/core/rank.hpp"

#include <algorithm>

#include "models/bind_open.hpp"
#include "models/world/world.hpp"

namespace nkisim::models {
namespace {

constexpr std::uint64_t kProgressEvery = 256;

// "rank0.nc0.vector waits for S[5]>=4 (it is 3) at trace line 12 (tensor_tensor)"
std::string describe(const Engine& engine, const NeuronCore& core,
                     const isa::SemaphoreNames& names) {
  const Operation& op = *engine.blocked();
  std::string on = engine.blocked_on(names);
  if (engine.blocked_queue() != kNoQueue) on = core.queue_name(engine.blocked_queue());
  std::string text = std::string(engine.name()) + " waits for " + on + " at ";
  if (op.step.inst->loc.trace_line != 0) {
    text += "line " + std::to_string(op.step.inst->loc.trace_line) + " ";
  }
  return text + "(" + std::string(isa::spec(*op.step.inst).name) + ")";
}

}  // namespace

Rank::Rank(const sc_core::sc_module_name& name, const isa::Program& program, const Config& config,
           isa::Memory* memory, const ObserverList& observers, const RunOptions& options,
           Clock& clock, World& world)
    : sc_module(name),
      program_(program),
      options_(options),
      clock_(clock),
      world_(world),
      evaluates_(memory != nullptr),
      costs_(config, program) {
  if (!evaluates_) {
    scratch_ = std::make_unique<isa::Memory>(program);
    memory = scratch_.get();
  } else {
    memory->begin_run();
  }
  for (int c = 0; c < program.cores(); ++c) {
    cores_.push_back(std::make_unique<NeuronCore>(("nc" + std::to_string(c)).c_str(), c, program,
                                                  config, costs_, clock, *memory, options,
                                                  observers, *this));
  }
}

void Rank::before_end_of_elaboration() {
  for (const auto& core : cores_) bind_open(core->hbm, world_.stack(options_.rank));
}

RunResult Rank::result() const {
  RunResult r{.end = 0, .instructions = finished_, .stopped = stopped_};
  for (const auto& core : cores_) r.end = std::max(r.end, core->end());
  return r;
}

bool Rank::idle() const {
  return std::all_of(cores_.begin(), cores_.end(), [](const auto& core) { return core->idle(); });
}

void Rank::check_finished() const {
  if (stopped_) return;
  const isa::SemaphoreNames none;
  const auto& names = options_.semaphore_names != nullptr ? *options_.semaphore_names : none;
  std::string message;
  const isa::Inst* first = nullptr;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    for (const Engine* e : cores_[c]->blocked()) {
      if (first == nullptr) first = e->blocked()->step.inst;
      message += message.empty() ? "deadlock: " : "; ";
      message += describe(*e, *cores_[c], names);
    }
  }
  if (first == nullptr) return;
  isa::Error error(isa::Rule::semaphore_deadlock, message);
  throw error.at(isa::spec(*first).name, first->loc);
}

void Rank::count_one() {
  if (++finished_ % kProgressEvery != 0 || !options_.progress) return;
  if (options_.progress(finished_, clock_.now())) return;
  stopped_ = true;
  clock_.stop();
}

void Rank::start_collective(int core, Operation& op, Fs triggered) {
  world_.trigger(*this, static_cast<std::size_t>(core), op, triggered);
}

bool Rank::meet(int id, Operation& op, Fs now, Fs& since) {
  if (op.met == kNever) {
    Meeting& meeting = meetings_[op.rendezvous];
    meeting.arrived.resize(cores_.size(), nullptr);
    Operation*& arrived = meeting.arrived[static_cast<std::size_t>(id)];
    if (arrived == nullptr) {
      arrived = &op;
      if (++meeting.count == cores_.size()) all_met(op.rendezvous, now);
    }
    if (op.met == kNever) return false;
  }
  since = std::max(since, op.met);
  return true;
}

// A core alone meets itself. Of several the world sees to it that none is ahead of another by the
// order in which SystemC runs them.
void Rank::all_met(std::uint32_t number, Fs now) {
  if (cores_.size() > 1) {
    world_.met(*this, number);
  } else {
    hold_meeting(number, now);
  }
}

void Rank::hold_meeting(std::uint32_t number, Fs now) {
  const auto meeting = meetings_.extract(number);
  exchange(meeting.mapped());
  for (Operation* each : meeting.mapped().arrived) each->met = now;
  for (const auto& core : cores_) core->wake_all();
}

// Now every core has written what it sends, and nothing uses any more what will be received. From
// here on each core goes on at its own time.
void Rank::exchange(const Meeting& meeting) {
  std::vector<const isa::Inst*> met;
  for (const Operation* op : meeting.arrived) met.push_back(op->step.inst);
  isa::check_meeting(program_, met);
  if (!evaluates_ || cores_.size() < 2) return;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    meeting.arrived[isa::partner_of(c)]->received = cores_[c]->send(*meeting.arrived[c]);
  }
}

}  // namespace nkisim::models
