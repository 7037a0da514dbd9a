#include "isa/interpreter.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "isa/rounding.hpp"
#include "isa/walker.hpp"

namespace nkisim::isa {
namespace {

constexpr std::uint64_t kProgressEvery = 256;

// One core being interpreted.
struct Core {
  Core(const Program& program, Memory& memory, int id, const InterpretOptions& options)
      : walker(program, id, state), context(program, memory, state, options.unwritten) {
    context.print = options.print;
    state.checks_registers = options.unwritten == Unwritten::kError;
    if (options.stochastic_rounding) seed_rounding(state, *options.stochastic_rounding, id);
  }
  CoreState state;
  Walker walker;
  EvalContext context;
  const Inst* waiting = nullptr;  // at a rendezvous
  bool done = false;
};

// Runs a core up to its next rendezvous or its end. Returns false if progress asked to stop.
bool run_core(Core& core, const InterpretOptions& options, std::uint64_t& count) {
  while (const auto step = core.walker.next()) {
    ++count;
    if (options.progress && count % kProgressEvery == 0 && !options.progress(count)) return false;
    const OpSpec& op = spec(*step->inst);
    if (options.before && op.control == OpSpec::Control::kNone) {
      options.before(*step->inst, core.context);
    }
    if (op.rendezvous) {
      core.waiting = step->inst;
      return true;
    }
    if (options.values || op.on_sequencer) core.context.run(*step->inst);
    if (options.after) options.after(*step->inst);
  }
  core.done = true;
  return true;
}

void meet(const Program& program, std::vector<std::unique_ptr<Core>>& cores, bool values) {
  const Inst* first = nullptr;
  std::vector<const Inst*> met;
  for (const auto& core : cores) {
    if (first == nullptr) first = core->waiting;
    met.push_back(core->waiting);
  }
  if (std::find(met.begin(), met.end(), nullptr) != met.end()) fail_alone(program, *first, nullptr);
  check_meeting(program, met);
  for (const auto& core : cores) core->waiting = nullptr;
  if (!values) return;
  std::vector<Parcel> parcels;
  for (std::size_t i = 0; i < cores.size(); ++i) parcels.push_back(cores[i]->context.send(*met[i]));
  for (std::size_t i = 0; i < cores.size(); ++i) {
    cores[i]->context.run(*met[i], cores.size() > 1 ? &parcels[partner_of(i)] : nullptr);
  }
}

}  // namespace

std::uint64_t interpret(const Program& program, Memory& memory, const InterpretOptions& options) {
  std::vector<std::unique_ptr<Core>> cores;
  for (int c = 0; c < program.cores(); ++c) {
    cores.push_back(std::make_unique<Core>(program, memory, c, options));
  }
  memory.begin_run();
  std::uint64_t count = 0;
  for (;;) {
    bool waiting = false;
    for (const auto& core : cores) {
      if (!core->done && !run_core(*core, options, count)) return count;
      waiting |= core->waiting != nullptr;
    }
    if (!waiting) break;
    meet(program, cores, options.values);
  }
  if (options.unwritten == Unwritten::kError) {
    check_outputs(program, memory, options.undefined_output);
  }
  return count;
}

struct Evaluation::Cores {
  std::vector<std::unique_ptr<Core>> all;
};

Evaluation::Evaluation(const Program& program, Memory& memory, int cores, InterpretOptions options)
    : program_(program),
      memory_(memory),
      options_(std::move(options)),
      cores_(std::make_unique<Cores>()) {
  options_.after = [this](const Inst& inst) {
    const auto due = releases_.find(&inst);
    if (due == releases_.end()) return;
    for (const std::uint32_t tensor : due->second) memory_.release(tensor);
    releases_.erase(due);
  };
  for (int c = 0; c < cores; ++c) {
    cores_->all.push_back(std::make_unique<Core>(program, memory, c, options_));
  }
}

Evaluation::~Evaluation() = default;

void Evaluation::release_behind(
    const std::vector<std::pair<std::int64_t, std::uint32_t>>& last_uses) {
  for (const auto& [last, tensor] : last_uses) {
    const Inst* inst = last < 0 ? nullptr : &program_.insts().at(static_cast<std::size_t>(last));
    releases_[inst].push_back(tensor);
  }
}

bool Evaluation::advance(int core, bool complete) {
  auto& cores = cores_->all;
  const Core& wanted = *cores.at(static_cast<std::size_t>(core));
  for (;;) {
    bool all_wait = true;
    for (const auto& c : cores) {
      if (c->waiting == nullptr && !run_core(*c, options_, count_)) return false;
      all_wait = all_wait && c->waiting != nullptr;
    }
    if (wanted.waiting == nullptr) {
      for (const auto& [inst, tensors] : releases_) {
        for (const std::uint32_t tensor : tensors) memory_.release(tensor);
      }
      releases_.clear();
      return true;
    }
    if (!all_wait && !complete) return false;
    meet(program_, cores, options_.values);
  }
}

}  // namespace nkisim::isa
