// Finds the instructions that begin and end each loop of a program.
#include "compiler/analysis/loops.hpp"

namespace nkisim::compiler {

std::vector<Loop> loops_of(const isa::Program& program) {
  using Control = isa::OpSpec::Control;
  std::vector<Loop> out;
  std::vector<std::vector<std::size_t>> open(static_cast<std::size_t>(program.cores()));
  for (const std::size_t i : program.control_flow()) {
    const isa::Inst& inst = program.insts()[i];
    const Control control = isa::spec(inst).control;
    if (control == Control::kLoopBegin || control == Control::kWhileBegin) {
      open[inst.core].push_back(i);
    } else if (control == Control::kLoopEnd || control == Control::kWhileEnd) {
      out.push_back({inst.core, static_cast<std::int64_t>(open[inst.core].back()),
                     static_cast<std::int64_t>(i)});
      open[inst.core].pop_back();
    }
  }
  return out;
}

}  // namespace nkisim::compiler
