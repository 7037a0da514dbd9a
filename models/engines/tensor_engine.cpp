// Starts matmuls and weight loads of the Tensor Engine on the model of its PE array.
#include "models/engines/tensor_engine.hpp"

#include <algorithm>

namespace nkisim::models {

Engine::Progress TensorEngine::start(Operation& op, const isa::Part& part, const Cost& cost,
                                     Wait& wait, Fs now) {
  if (cost.kind != PartKind::kArray) return ComputeEngine::start(op, part, cost, wait, now);
  const Fs at = std::max({wait.ready, wait.awake, wait.pipe_free});
  wait.pipe_free = std::max(wait.pipe_free, array_.earliest(part, at));
  const Fs start = std::max(at, wait.pipe_free);
  const Array::Slot slot = array_.run(part, cost, start);
  handed_ = std::max(handed_, wait.awake) + config_.issue;
  ready_ = start + (after_sequencer_ ? config_.issue_after_sequencer : config_.issue);
  after_sequencer_ = false;
  PartEvent e = event(op, part, cost, wait, start, slot.end);
  e.busy_from = slot.busy_from;
  e.busy_to = slot.busy_to;
  e.throttled = slot.throttled;
  e.sooner = slot.sooner;
  e.later = slot.later;
  send(e);
  part_done(op, start, slot.end);
  return Progress::kIssued;
}

}  // namespace nkisim::models
