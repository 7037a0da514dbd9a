// Estimates an instruction's time from the machine's cost table and its DMA rates.
#include "compiler/analysis/estimate.hpp"

#include <algorithm>

#include "models/dma/dma_plan.hpp"

namespace nkisim::compiler {

const Estimate& Estimator::estimate(const isa::Inst& inst) {
  if (!describe(inst)) return estimates_.emplace_back(find(inst));
  std::uint64_t hash = key_.size();
  for (const std::uint64_t word : key_) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32U;
  }
  Known& known = known_[hash % kKnown];
  if (known.estimate == nullptr || known.key != key_) {
    known.estimate = &estimates_.emplace_back(find(inst));
    known.key = key_;
  }
  return *known.estimate;
}

// Puts into key_ all that OpSpec::expand and the costs see of an instruction; which tensor an
// operand is of and where in it they do not. False if there is more to it.
bool Estimator::describe(const isa::Inst& inst) {
  if (inst.dma != nullptr) return false;
  key_.clear();
  key_.push_back(static_cast<std::uint64_t>(inst.op) |
                 static_cast<std::uint64_t>(inst.engine) << 16U | std::uint64_t{inst.core} << 24U);
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const isa::Arg& arg = inst.args[i];
    if (!arg.present()) continue;
    if (arg.kind == isa::Arg::Kind::kTensors) return false;
    const std::uint64_t kind = i | static_cast<std::uint64_t>(arg.kind) << 8U;
    if (arg.kind != isa::Arg::Kind::kTensor) {
      key_.push_back(kind);
      key_.push_back(static_cast<std::uint64_t>(arg.integer));
      continue;
    }
    const isa::TensorRef& ref = *arg.tensor;
    if (ref.dynamic != nullptr) return false;
    key_.push_back(kind | static_cast<std::uint64_t>(ref.space) << 16U |
                   static_cast<std::uint64_t>(ref.dtype) << 24U |
                   std::uint64_t{ref.partition} << 32U | std::uint64_t{ref.partitions} << 48U);
    key_.push_back(reinterpret_cast<std::uintptr_t>(ref.pattern));
  }
  return true;
}

Estimate Estimator::find(const isa::Inst& inst) {
  Estimate e{.engine = inst.engine};
  isa::expand(inst, machine_, expansion_);
  const models::EngineConfig& engine = config_.engines.at(static_cast<std::size_t>(inst.engine));
  e.is_dma = expansion_.is_dma;
  if (e.is_dma) {
    add_dma(inst, e);
    return e;
  }
  models::Fs loads = 0;  // weights of the PE array are loaded while it multiplies
  models::Fs last = 0;
  for (const isa::Part& part : expansion_.parts) {
    const models::Cost& cost = costs_.cost(part);
    const models::Fs step =
        std::max(cost.kind == models::PartKind::kArray ? cost.stream : cost.interval, engine.issue);
    (part.unit == isa::Unit::kTensor ? loads : e.interval) += step;
    e.latency += last;
    last = cost.kind == models::PartKind::kArray ? cost.stream : cost.interval;
    if (&part == &expansion_.parts.back()) last = cost.duration;
    if (part.act_table != 0) e.act_table = part.act_table;
  }
  e.interval = std::max(e.interval, loads);
  e.latency += last + engine.update;
  return e;
}

void Estimator::add_dma(const isa::Inst& inst, Estimate& e) const {
  const auto trigger = static_cast<std::size_t>(inst.engine);
  const models::DmaConfig& dma = config_.dma;
  const isa::DmaWork& work = expansion_.dma;
  const models::DgeConfig& dge = dma.dge(dma.resolve(work.dge, inst.engine));
  e.interval = dge.holds_sequencer
                   ? dge.trigger.at(trigger) + config_.engines.at(trigger).gap
                   : dge.interval_base + work.descriptors * dge.interval_per_descriptor;
  e.interval = std::max(e.interval, dge.queue_interval);
  e.latency = dge.trigger.at(trigger) + dge.first_packet + dma.semaphore_latency;
  if (work.src == isa::Space::kHbm) e.latency += dma.hbm_read_latency;
  const models::Fs one = models::from_ns(static_cast<double>(work.bytes) / dma.bytes_per_ns) +
                         work.descriptors * dma.packet_gap;
  e.lanes = one / models::lanes_in_use(work, dma);
  e.transfer = one / dma.engines;
}

models::Fs Estimator::table_load() const {
  return table_.cost({.opcode = isa::Opcode::kACT_TABLE_LOAD, .unit = isa::Unit::kScalar}).interval;
}

}  // namespace nkisim::compiler
