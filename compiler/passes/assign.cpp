// Chooses the engine that triggers each DMA (pass `queues`), by this algorithm:
//
//   for each DMA whose engine is open:
//     GpSimd triggers it with software descriptors if it moves an input or output
//       (`software`, from trn2)
//     ScalarE triggers it if it stores to HBM; otherwise SyncE does
//     an engine that cannot run it leaves it as the kernel has it
//   descriptors=static: for each DMA without an engine or mode, and with known addresses:
//     take static descriptors from the next of the static queues, round robin
#include "compiler/passes/assign.hpp"

#include <string>
#include <vector>

#include "compiler/analysis/rewrite.hpp"

namespace nkisim::compiler {
namespace {

// The tensors that a DMA writes and reads.
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
  if (queues == DmaQueues::k_one || inst.engine != isa::Engine::kSync) return inst.engine;
  const Route route = route_of(inst, program);
  if (queues == DmaQueues::k_software && route.program_data &&
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

// True if a ring that was filled before the program starts could hold the transfer.
bool has_static_form(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  const int mode = isa::param_index(op, "dge_mode");
  bool known = inst.engine_open && op.dma && inst.dma == nullptr && inst.sync == nullptr &&
               mode >= 0 && !inst.has(mode);
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    known &= ref.dynamic == nullptr;
  });
  return known;
}

}  // namespace

std::size_t use_static_queues(isa::Program& program, int queues) {
  std::vector<const isa::DmaPlan*> plans;
  for (int q = 0; q < queues; ++q) {
    const std::string name = "qStatic" + std::to_string(q);
    plans.push_back(program.add_plan({.queue_name = program.add_queue(name), .packets = {}}));
  }
  Rewrite rewrite(program);
  const std::size_t count = program.insts().size();
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    isa::Inst inst = program.insts()[i];
    if (!has_static_form(inst)) continue;
    inst.dma = plans[next++ % plans.size()];
    std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
    isa::Arg& mode =
        args.at(static_cast<std::size_t>(isa::param_index(isa::spec(inst), "dge_mode")));
    mode.kind = isa::Arg::Kind::kEnum;
    mode.integer = static_cast<std::int64_t>(isa::DgeMode::kNone);
    rewrite.put(i, inst, args);
    rewrite.drop(i);
  }
  rewrite.finish();
  return next;
}

std::size_t assign_queues(isa::Program& program, DmaQueues queues) {
  std::size_t changed = 0, i = 0;
  for (const isa::Inst& inst : program.insts()) {
    const std::size_t at = i++;
    if (!inst.engine_open || !isa::spec(inst).dma) continue;
    const isa::Engine engine = dma_trigger(inst, program, queues);
    if (engine != inst.engine && may_run_on(program, at, engine)) ++changed;
  }
  return changed;
}

PassResult assign(Unit& unit) {
  PassResult done{assign_queues(unit.program, unit.choices.dma_queues),
                  "dma_queues=" + std::string(name(unit.choices.dma_queues))};
  if (unit.choices.descriptors == Descriptors::k_static) {
    const std::size_t taken = use_static_queues(unit.program, unit.config().dma.engines);
    done.text += ", " + std::to_string(taken) + " by static descriptors";
  }
  return done;
}

}  // namespace nkisim::compiler
