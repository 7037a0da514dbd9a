// Lists the compiler's passes in their order, and runs them on a program.
#include "compiler/pipeline.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/analysis/checks.hpp"
#include "compiler/analysis/pass_check.hpp"
#include "compiler/passes/assign.hpp"
#include "compiler/passes/batch_statistics.hpp"
#include "compiler/passes/casts.hpp"
#include "compiler/passes/clears.hpp"
#include "compiler/passes/common_results.hpp"
#include "compiler/passes/deduplicate_tiles.hpp"
#include "compiler/passes/edges.hpp"
#include "compiler/passes/engines.hpp"
#include "compiler/passes/forward.hpp"
#include "compiler/passes/merge.hpp"
#include "compiler/passes/rename.hpp"
#include "compiler/passes/schedule.hpp"
#include "compiler/passes/transfers.hpp"
#include "compiler/placement/fit.hpp"
#include "isa/program/check.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::array kPipeline = {
    Pass{"edges", &edges, "dependences that the kernel adds"},
    Pass{"clears", &clears, "memsets left out"},
    Pass{"casts", &casts, "stores that a cast goes before"},
    Pass{"merge", &merge, "copies out of PSUM done by another's"},
    Pass{"rows", &rows, "statistics of rows found by another's instruction"},
    Pass{"fit", &fit, "orders tried after the program's own, or transfers of spilled tiles"},
    Pass{"forward", &forward, "copies left out, their source read in PSUM"},
    Pass{"reuse", &reuse, "instructions left out, an earlier result read again"},
    Pass{"rename", &rename, "tiles given storage of their own"},
    Pass{"share", &share, "instructions left out, another tile holds what they fill"},
    Pass{"transfers", &transfers, "DMAs made by another, of a neighbouring tile"},
    Pass{"engines", &engines, "copies given another engine"},
    Pass{"queues", &assign, "DMAs given another engine"},
    Pass{"schedule", &schedule, "instructions moved before earlier ones"},
    Pass{"place", &place, "tensors given an address"},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

std::size_t Compiled::changed(std::string_view pass) const {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.pass == pass; });
  return found == steps.end() ? 0 : found->changed;
}

Compiled compile(isa::Program& program, const CompilerOptions& options, Origin origin,
                 std::function<const models::Config&()> config,
                 const std::function<void(const Compiled::Step&)>& on_step,
                 std::span<const Pass> passes) {
  Compiled out;
  out.choices = resolved(options, origin, program);
  Unit unit{program, choices_of(out.choices), origin, std::move(config)};
  check_recorded(unit);
  unit.over_capacity = unit.choices.over_capacity == OverCapacity::k_yes;
  std::optional<PassCheck> check;
  if (out.choices.check_passes) check.emplace(program);
  for (const Pass& pass : passes) {
    const std::uint64_t edits = program.edits();
    PassResult done = pass.run(unit);
    unit.forget_untrue();
    if (check && program.edits() != edits) check->after(pass.name);
    out.steps.push_back({pass.name, done.changed, std::move(done.text)});
    if (on_step) on_step(out.steps.back());
  }
  if (origin.open) {
    program.set_virtual_addresses(false);
    isa::check_placement(program);
  }
  if (check) check->after("place");
  out.delay = unit.delay;
  out.packed = unit.packed;
  out.peaks = std::move(unit.peaks);
  out.overflow = std::move(unit.overflow);
  return out;
}

}  // namespace nkisim::compiler
