// Estimates the time of an instruction before anything has run. The compiler decides by estimates;
// simulated times do not use them.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "models/issue/cost.hpp"

namespace nkisim::compiler {

struct Estimate {
  isa::Engine engine = isa::Engine::kSync;
  bool is_dma = false;
  models::Fs interval = 0;  // start to the next instruction's earliest start on the engine
  models::Fs latency =
      0;  // start to result visible to others; of a DMA without its share of `transfer`
  models::Fs transfer = 0;  // DMA: time all DMA engines together need for its bytes
  models::Fs lanes = 0;     // DMA: time its own engines need for its bytes
  std::uint32_t act_table = 0;
};

class Estimator {
 public:
  Estimator(std::reference_wrapper<const models::Config> config, const isa::Program& program)
      : config_(config),
        machine_(program.machine()),
        table_(config, program),
        costs_(table_),
        known_(kKnown) {}
  /// Stays where it is as long as the estimator.
  [[nodiscard]] const Estimate& estimate(const isa::Inst& inst);
  /// Time ScalarE needs to load other function tables.
  [[nodiscard]] models::Fs table_load() const;
  /// Semaphore visible to start on `engine`.
  [[nodiscard]] models::Fs wake(isa::Engine engine) const {
    return config_.engines.at(static_cast<std::size_t>(engine)).wake;
  }

 private:
  [[nodiscard]] Estimate find(const isa::Inst& inst);
  void add_dma(const isa::Inst& inst, Estimate& e) const;
  bool describe(const isa::Inst& inst);
  const models::Config& config_;
  const isa::Machine& machine_;
  models::CostTable table_;
  models::CostCache costs_;
  isa::Expansion expansion_;
  // Caches the expansions of instructions (describe): programs repeat few different ones.
  static constexpr std::size_t kKnown = 1024;
  struct Known {
    std::vector<std::uint64_t> key;
    const Estimate* estimate = nullptr;
  };
  std::vector<Known> known_;
  std::vector<std::uint64_t> key_;  // of the instruction at hand
  std::deque<Estimate> estimates_;
};

}  // namespace nkisim::compiler
