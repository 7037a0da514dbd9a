#include "compiler/placement/fit.hpp"

#include "compiler/passes/order.hpp"
#include "compiler/passes/thrift.hpp"
#include "compiler/placement/place.hpp"

namespace nkisim::compiler {
namespace {

// Whether the tiles fit in the program's present order; else `problem` says what does not.
bool fits(Unit& unit, std::optional<isa::Error>& problem) {
  try {
    place_tensors(unit, true);
    return true;
  } catch (const isa::Error& e) {
    problem = e;
    return false;
  }
}

}  // namespace

Done fit(Unit& unit) {
  if (!unit.origin.open) return {0, "addresses are given"};
  std::optional<isa::Error> problem, next;
  if (fits(unit, problem)) return {0, "the program's own order fits"};
  const std::vector<bool> placed = unit.final_addresses();
  std::size_t tried = 0;
  for (const bool packed : {false, true}) {
    unit.packed = packed;
    for (const Delay delay : kDelays) {
      const Order order(unit.program, thrifty_order(unit.program, placed, delay));
      ++tried;
      if (fits(unit, next)) {
        unit.delay = name(delay);
        return {tried, "delay=" + std::string(unit.delay) +
                           (packed ? ", narrow tensors side by side," : "") + " fits"};
      }
      order.undo();
    }
  }
  unit.packed = false;
  if (!unit.origin.legacy) throw *problem;
  unit.overflow = problem;
  unit.over_capacity = true;
  place_tensors(unit, true);
  return {tried, "none fits; runs over capacity"};
}

Done place(Unit& unit) {
  if (!unit.origin.open) return {};
  if (!unit.placed) place_tensors(unit, true);
  unit.placed = true;
  Done done;
  for (const isa::Tensor& t : unit.program.tensors()) {
    if (t.space != isa::Space::kHbm && !t.fixed) ++done.changed;
  }
  for (const Peak& peak : unit.peaks) {
    const bool sbuf = peak.space == isa::Space::kSbuf;
    const isa::Machine& m = unit.program.machine();
    done.text += (done.text.empty() ? "" : ", ") + std::string(sbuf ? "SBUF" : "PSUM") + " core " +
                 std::to_string(peak.core) + " " + std::to_string(peak.bytes) + " of " +
                 std::to_string(sbuf ? m.sbuf_partition_bytes : m.psum_partition_bytes) + " bytes";
  }
  return done;
}

}  // namespace nkisim::compiler
