// Records from a run's events when each instruction began and was complete: a step is one execution
// of one instruction.

#include "src/report/steps.hpp"

#include <algorithm>

#include "isa/base/stable_order.hpp"
#include "isa/program/world.hpp"

namespace nkisim {

void Steps::on_start(const isa::Program& program, const models::Config&) {
  program_ = &program;
  cores_.clear();
  cores_.resize(static_cast<std::size_t>(program.cores()));
}

void Steps::on_queue(const models::QueueName& queue) {
  auto& queues = cores_.at(static_cast<std::size_t>(queue.core)).queues;
  queues.resize(std::max<std::size_t>(queues.size(), queue.index + 1U));
  queues[queue.index] = queue.name;
}

StepTimes& Steps::step(int core, std::uint64_t sequence) {
  auto& steps = cores_.at(static_cast<std::size_t>(core)).steps;
  if (sequence >= steps.size()) steps.resize(sequence + 1);
  return steps[sequence];
}

Steps::Shape Steps::shape_of(const isa::Inst& inst) {
  const auto [shape, is_new] = shapes_.find_or_add(&inst);
  if (!is_new) return *shape;
  isa::Expansion expansion;
  isa::expand(inst, program_->machine(), expansion);
  const bool alone = isa::spec(inst).combine != nullptr && isa::group_of(inst, rank_).size() <= 1;
  *shape = {static_cast<std::int32_t>(expansion.parts.size()),
            expansion.is_dma || (expansion.is_collective && !alone)};
  return *shape;
}

void Steps::on_event(const models::PartEvent& event) {
  StepTimes& s = step(event.core, event.sequence);
  s.inst = event.inst;
  s.start = std::min(s.start, event.start);
  end_ = std::max(end_, event.end);
  Core& core = cores_[static_cast<std::size_t>(event.core)];
  core.parts.at(static_cast<std::size_t>(engine_of(event.part->unit)))
      .push_back({event.inst, event.part->opcode, event.start, event.end, event.wait});
  if (isa::spec(*event.inst).control != isa::OpSpec::Control::kNone) {
    s.end = s.end == models::kNever ? event.end : std::max(s.end, event.end);  // on all engines
    return;
  }
  const Shape shape = shape_of(*event.inst);
  if (!shape.overlaps && event.part_index + 1 == shape.parts) s.end = event.end;
}

void Steps::on_event(const models::DmaEvent& event) {
  step(event.core, event.sequence).end = event.visible;
  end_ = std::max(end_, event.visible);
}

void Steps::on_event(const models::CollectiveEvent& event) {
  StepTimes& s = step(event.core, event.sequence);
  s.end = event.part->timing.end;
  s.collective = event.part->id;
  end_ = std::max(end_, s.end);
}

void Steps::on_event(const models::SemaphoreEvent& event) {
  cores_[static_cast<std::size_t>(event.core)].semaphores.push_back(event);
  end_ = std::max(end_, event.time);
}

void Steps::on_end(const models::RunEnd& run) {
  for (Core& core : cores_) {
    for (auto& parts : core.parts) {
      isa::sort_stably(parts, [](const Part& a, const Part& b) { return a.start < b.start; });
    }
  }
  end_ = std::max(end_, run.time);
  partial_ = run.partial;
}

}  // namespace nkisim
