#include "compiler/passes/engines.hpp"

#include <string>
#include <vector>

#include "compiler/analysis/rewrite.hpp"
#include "isa/act.hpp"

namespace nkisim::compiler {
namespace {

// ScalarE copies with an activation function on all generations.
isa::Inst copy_on_scalar(const isa::Inst& copy) {
  isa::Inst made = copy;
  made.op = isa::Op::k_activation;
  made.engine = isa::Engine::kScalar;
  made.engine_open = made.forward = false;
  return made;
}

std::vector<isa::Arg> scalar_arguments(const isa::Inst& copy) {
  const isa::OpSpec& op = isa::spec(copy);
  std::vector<isa::Arg> args = tensor_arguments(
      isa::Op::k_activation, {{"dst", &copy.tensor(isa::param_index(op, "dst"))},
                              {"data", &copy.tensor(isa::param_index(op, "src"))}});
  isa::Arg& function =
      args.at(static_cast<std::size_t>(isa::param_index(isa::spec(isa::Op::k_activation), "op")));
  function.kind = isa::Arg::Kind::kEnum;
  function.integer = static_cast<std::int64_t>(isa::ActFn::kCopy);
  return args;
}

bool reads_psum(const isa::Inst& inst) {
  bool psum = false;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    psum |= !write && ref.space == isa::Space::kPsum;
  });
  return psum;
}

}  // namespace

bool may_copy_elsewhere(const isa::Inst& inst) {
  if (!inst.engine_open || inst.engine != isa::Engine::kVector || inst.sync != nullptr ||
      inst.op != isa::Op::k_tensor_copy) {
    return false;
  }
  bool plain = true;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    plain &= ref.dynamic == nullptr && isa::kFloats.contains(ref.dtype);
  });
  return plain;
}

std::string_view engines_of(const Unit& unit) {
  if (unit.options.engines != "auto") return unit.options.engines;
  if (!unit.origin.legacy) return "default";
  return unit.program.machine().generation < isa::Generation::kV3 ? "scalar" : "load";
}

Done engines(Unit& unit) {
  const std::string_view chosen = engines_of(unit);
  Done done{0, "engines=" + std::string(chosen)};
  isa::Program& program = unit.program;
  if (chosen != "scalar" || !unit.may_drop()) return done;
  Rewrite rewrite(program);
  const std::size_t count = program.insts().size();
  for (std::size_t i = 0; i < count; ++i) {
    const isa::Inst& inst = program.insts()[i];
    if (!may_copy_elsewhere(inst) || !reads_psum(inst)) continue;
    rewrite.put(i, copy_on_scalar(inst), scalar_arguments(inst));
    rewrite.drop(i);
    ++done.changed;
  }
  rewrite.finish();
  return done;
}

}  // namespace nkisim::compiler
