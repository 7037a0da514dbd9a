// Sums what the numbers of a config that fewer than three measurements give change in a run, so
// that its interval can cover the results with and without them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/dma/dma_plan.hpp"
#include "models/issue/cost.hpp"
#include "models/observer.hpp"

namespace nkisim {

/// By how much a run would end sooner or later without something.
struct OpenTime {
  models::Fs sooner = 0, later = 0;
  void add(models::Fs change) { (change < 0 ? sooner : later) += change < 0 ? -change : change; }
  void add(const OpenTime& other) {
    sooner += other.sooner;
    later += other.later;
  }
};

/// Watches one run. All changes are added, as if each were on the critical path, and no run changes
/// by more than its parts do: both are bounds.
class FewPoints {
 public:
  /// Before the first event. The config must outlive this.
  void start(const isa::Program& program, const models::Config& config);
  void add(const models::PartEvent& event);
  void add(const models::DmaEvent& event);

  struct Found {
    OpenTime time = {};
    OpenTime limit = {};  // of the PE array, between the sizes that were measured
    // Each time of the run is at least and at most this many times what it was: so is the run.
    double least = 1, most = 1;
    std::size_t core = 0;
  };
  /// Sums up the core that it moves most.
  [[nodiscard]] Found found() const;
  /// Names the rules and numbers that change a core's time, those that change most first.
  [[nodiscard]] std::vector<std::string> names(std::size_t core) const;

 private:
  enum class Few : std::uint8_t { kUnknown, kNo, kYes };
  struct Planned {  // a transfer's plan as it is, and what it would take otherwise
    std::shared_ptr<const models::TransferPlan> plan;
    models::Fs now = 0, then = 0;
    std::size_t number = 0;  // in transfers_, if it would change
  };
  struct Transfer {
    isa::DmaWork work = {};
    isa::DgeMode mode = {};
  };
  struct Core {
    std::map<std::string, OpenTime> changes = {};    // by the rule's name
    std::map<std::size_t, OpenTime> transfers = {};  // by number; the last has those of all others
    // Changes of instructions that all engines do at once, such as a loop's branches.
    std::array<OpenTime, isa::kUnitCount> sequencers = {};
    OpenTime limit = {};
    double least = 1, most = 1;
    void scaled(models::Fs now, models::Fs then);
  };
  [[nodiscard]] Core& core(int number);
  [[nodiscard]] static Found found(const Core& core);
  [[nodiscard]] bool rests_on_few(const isa::Part& part);
  [[nodiscard]] std::string name_of(const isa::Part& part, const models::CostRule& rule) const;
  [[nodiscard]] Planned planned(const isa::DmaWork& work, isa::DgeMode mode,
                                std::shared_ptr<const models::TransferPlan> plan);
  [[nodiscard]] std::string names_of(const Transfer& transfer) const;

  const isa::Program* program_ = nullptr;
  const models::Config* config_ = nullptr;
  std::unique_ptr<models::CostTable> costs_, other_costs_;
  std::unique_ptr<models::CostCache> cost_, other_cost_;
  std::vector<std::array<Few, isa::kUnitCount>> few_;  // by opcode
  std::unique_ptr<models::DmaPlanner> planner_;
  std::map<const models::TransferPlan*, Planned> plans_;
  std::vector<Transfer> transfers_;  // that would change, of different plans
  std::vector<Core> cores_;
};

}  // namespace nkisim
