// Orders all instructions of the program (pass `schedule`), by this algorithm:
//
//   loads=needed: first order sources before the instruction that needs them (memory_saving_order)
//   for each share of SBUF, from 90 % down:
//     for each core, for each stretch between barriers: list scheduling (block_scheduler.cpp)
//     keep the order if its tiles can be placed, else undo it
//   without a fit: the same from the kernel's own order, and at last the kernel's own order
#include "compiler/passes/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/passes/block_scheduler.hpp"
#include "compiler/passes/engines.hpp"
#include "compiler/passes/memory_saving_order.hpp"
#include "compiler/passes/order.hpp"
#include "compiler/placement/place.hpp"

namespace nkisim::compiler {
namespace {

// Shares of SBUF that tiles may fill; the next is tried where they do not fit as placed.
constexpr std::array kShares = {0.9, 0.75, 0.6, 0.4};

class Scheduler {
 public:
  Scheduler(const isa::Program& program, const isa::Uses& uses, const models::Config& config,
            const ScheduleOptions& options)
      : program_(program),
        uses_(uses),
        options_(options),
        estimator_(config, program),
        precedence_(program, uses, options.placed) {
    result_.order.resize(program.insts().size());
    for (std::uint32_t i = 0; i < result_.order.size(); ++i) result_.order[i] = i;
  }

  Schedule run() {
    if (program_.explicit_semaphores()) return std::move(result_);
    for (int core = 0; core < program_.cores(); ++core) run_core(core);
    return std::move(result_);
  }

 private:
  void run_core(int core) {
    std::vector<std::uint32_t> mine, barriers;  // the positions of barriers in `mine`
    std::uint32_t i = 0;
    for (const isa::Inst& inst : program_.insts()) {
      if (inst.core == core) {
        if (is_barrier(inst)) barriers.push_back(static_cast<std::uint32_t>(mine.size()));
        mine.push_back(i);
      }
      ++i;
    }
    SbufBudget budget(program_, uses_, mine, options_.placed, {options_.share, options_.packed});
    std::size_t begin = 0;
    for (const std::uint32_t p : barriers) {
      run_block({mine.data() + begin, p - begin}, begin, budget);
      budget.execute(mine[p], p);
      begin = p + std::size_t{1};
    }
    run_block({mine.data() + begin, mine.size() - begin}, begin, budget);
  }

  void run_block(std::span<const std::uint32_t> block, std::size_t position, SbufBudget& budget) {
    if (block.empty()) return;
    BlockScheduler scheduler(
        {program_, options_.window, precedence_, estimator_, budget, options_.balance}, block,
        position);
    const std::vector<std::uint32_t> order = scheduler.run();
    std::uint32_t earliest = static_cast<std::uint32_t>(block.size());  // of those that follow
    for (std::size_t k = order.size(); k-- > 0;) {
      result_.order[block[k]] = block[order[k]];
      if (scheduler.moved_to_scalar(order[k])) result_.to_scalar.push_back(block[order[k]]);
      if (order[k] > earliest) ++result_.moved;
      earliest = std::min(earliest, order[k]);
    }
  }

  const isa::Program& program_;
  const isa::Uses& uses_;
  const ScheduleOptions& options_;
  Estimator estimator_;
  Precedence precedence_;
  Schedule result_;
};

// tensor_copy exists on ScalarE from trn2 on.
bool scalar_copies(const isa::Program& program) {
  return program.machine().generation >= isa::Generation::kV3 &&
         program.machine().has(isa::Engine::kScalar);
}

void give(isa::Program& program, const std::vector<std::uint32_t>& copies, isa::Engine engine) {
  for (const std::uint32_t i : copies) program.set_engine(i, engine);
}

// With as much of SBUF as tiles can be placed in; nothing, and the program as it was, if they
// cannot.
std::optional<PassResult> schedule_and_place(Unit& unit, ScheduleOptions& options) {
  for (const double share : kShares) {
    options.share = share;
    const Schedule found = schedule(unit.program, unit.uses(), unit.config(), options);
    give(unit.program, found.to_scalar, isa::Engine::kScalar);
    const Order order(unit, found.order);
    try {
      place_tensors(unit, false);
      unit.placed = true;
      return PassResult{
          found.moved, "up to " + std::to_string(std::lround(100 * share)) + " % of SBUF filled, " +
                           std::to_string(found.to_scalar.size()) + " copies given to ScalarE"};
    } catch (const isa::Error&) {
      order.undo();
      give(unit.program, found.to_scalar, isa::Engine::kVector);
    }
  }
  return std::nullopt;
}

}  // namespace

Schedule schedule(const isa::Program& program, const models::Config& config,
                  const ScheduleOptions& options) {
  return schedule(program, isa::Uses(program), config, options);
}

Schedule schedule(const isa::Program& program, const isa::Uses& uses, const models::Config& config,
                  const ScheduleOptions& options) {
  return Scheduler(program, uses, config, options).run();
}

PassResult schedule(Unit& unit) {
  if (unit.choices.schedule == IssueOrder::k_program) return {};
  ScheduleOptions options;
  options.placed = unit.final_addresses();
  options.packed = unit.packed;
  options.balance = unit.choices.engines == Engines::k_load && scalar_copies(unit.program);
  if (!unit.origin.open) {
    const Schedule found = schedule(unit.program, unit.uses(), unit.config(), options);
    give(unit.program, found.to_scalar, isa::Engine::kScalar);
    unit.reorder(found.order);
    return {found.moved};
  }
  if (unit.choices.loads == Loads::k_needed && !unit.program.explicit_semaphores()) {
    const Order needed(
        unit, memory_saving_order(unit.program, options.placed, unit.uses(), Delay::kSources));
    if (std::optional<PassResult> done = schedule_and_place(unit, options)) return std::move(*done);
    needed.undo();
  }
  if (std::optional<PassResult> done = schedule_and_place(unit, options)) return std::move(*done);
  return {0, "no order's tiles can be placed"};
}

}  // namespace nkisim::compiler
