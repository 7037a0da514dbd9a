// Models one rank as a SystemC module: the cores of its program, and their waits for one another.
#pragma once

#include <map>

#include "isa/world/exchange.hpp"
#include "models/core/neuron_core.hpp"
#include "models/module_list.hpp"
#include "models/run.hpp"

namespace nkisim::models {

class World;

class Rank : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "Rank"; }
  Rank(const sc_core::sc_module_name& name, const isa::Program& program, const Config& config,
       isa::Memory* memory, const ObserverList& observers, const RunOptions& options, Clock& clock,
       World& world);

  [[nodiscard]] RunResult result() const;
  /// After the last event: throws Error if instructions are left over.
  void check_finished() const;

  // For the cores:
  [[nodiscard]] bool evaluates() const { return evaluates_; }
  void count_one();
  /// Core `id` has reached `op`. True once every core is at its meeting of the same number; `since`
  /// is then when, and op.received what its partner sent.
  bool meet(int id, Operation& op, Fs now, Fs& since);
  [[nodiscard]] bool several_cores() const { return cores_.size() > 1; }
  void start_collective(int core, Operation& op, Fs triggered);

  // For the world:
  [[nodiscard]] std::size_t cores() const { return cores_.size(); }
  [[nodiscard]] NeuronCore& core(std::size_t id) { return *cores_.at(id); }
  [[nodiscard]] bool idle() const;
  [[nodiscard]] const isa::Program& program() const { return program_; }
  [[nodiscard]] int number() const { return options_.rank; }
  /// The meeting of that number, to which all cores have come, takes place.
  void hold_meeting(std::uint32_t number, Fs now);

 private:
  struct Meeting {
    std::vector<Operation*> arrived;  // per core
    std::size_t count = 0;
  };
  void before_end_of_elaboration() override;
  void all_met(std::uint32_t number, Fs now);
  void exchange(const Meeting& meeting);
  const isa::Program& program_;
  RunOptions options_;
  Clock& clock_;
  World& world_;
  bool evaluates_;
  std::unique_ptr<isa::Memory> scratch_;
  CostTable costs_;
  std::map<std::uint32_t, Meeting> meetings_;  // by number
  ModuleList<NeuronCore> cores_;
  std::uint64_t finished_ = 0;
  bool stopped_ = false;
};

}  // namespace nkisim::models
