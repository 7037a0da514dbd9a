#include "compiler/passes/assign.hpp"

namespace nkisim::compiler {
namespace {

// What a DMA moves between: written and read tensors of an instruction.
struct Route {
  bool to_hbm = false, from_hbm = false;
  bool program_data = false;  // an input or output of the program
};

Route route_of(const isa::Inst& inst, const isa::Program& program) {
  Route route;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    if (ref.on_chip()) return;
    (write ? route.to_hbm : route.from_hbm) = true;
    const isa::TensorRole role = program.tensor(ref).role;
    route.program_data |= role != isa::TensorRole::kInternal && role != isa::TensorRole::kConstant;
  });
  return route;
}

isa::Engine dma_trigger(const isa::Inst& inst, const isa::Program& program, DmaQueues queues) {
  if (queues == DmaQueues::kOne || inst.engine != isa::Engine::kSync) return inst.engine;
  const Route route = route_of(inst, program);
  if (queues == DmaQueues::kSoftware && route.program_data &&
      program.machine().generation >= isa::Generation::kV3) {
    return isa::Engine::kGpSimd;
  }
  return route.to_hbm && !route.from_hbm ? isa::Engine::kScalar : inst.engine;
}

bool may_run_on(isa::Program& program, std::size_t i, isa::Engine engine) {
  try {
    program.set_engine(i, engine);
    return true;
  } catch (const isa::Error&) {
    return false;
  }
}

}  // namespace

std::size_t assign_queues(isa::Program& program, DmaQueues queues) {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < program.insts().size(); ++i) {
    const isa::Inst& inst = program.insts()[i];
    if (!inst.engine_open || !isa::spec(inst).dma) continue;
    const isa::Engine engine = dma_trigger(inst, program, queues);
    if (engine != inst.engine && may_run_on(program, i, engine)) ++changed;
  }
  return changed;
}

Done assign(Unit& unit) {
  std::string_view queues = unit.options.dma_queues;
  if (queues == "auto") queues = unit.origin.legacy ? "software" : "split";
  const DmaQueues chosen = queues == "software" ? DmaQueues::kSoftware
                           : queues == "split"  ? DmaQueues::kSplit
                                                : DmaQueues::kOne;
  return {assign_queues(unit.program, chosen), "dma_queues=" + std::string(queues)};
}

}  // namespace nkisim::compiler
