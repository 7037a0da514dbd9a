// Reads and writes the registers of a simulated core, and checks that they are set before use.

#include "isa/program/core_state.hpp"

#include "isa/program/bounds.hpp"
#include "isa/program/engine_state.hpp"
#include "isa/program/op_spec.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

std::int64_t CoreState::reg(std::int64_t id) const {
  const auto i = static_cast<std::size_t>(id);
  return i < registers.size() ? registers[i] : 0;
}

void CoreState::set_reg(std::int64_t id, std::int64_t value) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= registers.size()) registers.resize(i + 1);
  if (i >= registers_set.size()) registers_set.resize(i + 1);
  registers[i] = value;
  registers_set[i] = true;
}

bool CoreState::is_set(std::int64_t id) const {
  const auto i = static_cast<std::size_t>(id);
  return i < registers_set.size() && registers_set[i];
}

void CoreState::unset_reg(std::int64_t id) {
  set_reg(id, 0);
  registers_set[static_cast<std::size_t>(id)] = false;
}

namespace {

void require_set(std::int64_t id, const CoreState& state) {
  if (state.is_set(id)) return;
  fail(Rule::register_never_set, "register " + std::to_string(id) +
                                     " is used but was never set; give register_alloc a value, or "
                                     "set it with register_move or "
                                     "register_load first");
}

void require_set(const TensorRef& ref, const CoreState& state) {
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == DynamicOffset::Kind::kRegister) require_set(d->reg, state);
    if (d->index != nullptr) require_set(*d->index, state);
  }
}

}  // namespace

void check_registers(const Inst& inst, const CoreState& state) {
  const OpSpec& op = spec(inst);
  const bool sets_first =
      op.on_sequencer || op.loads_register || op.control == OpSpec::Control::kLoopBegin;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (arg.kind == Arg::Kind::kRegister && !(i == 0 && sets_first)) {
      require_set(arg.integer, state);
    }
    if (arg.kind == Arg::Kind::kTensor && arg.tensor->dynamic != nullptr) {
      require_set(*arg.tensor, state);
    }
    if (arg.kind != Arg::Kind::kTensors) continue;
    for (const TensorRef* ref : *arg.tensors) require_set(*ref, state);
  }
}

namespace {

void check_offsets(const TensorRef& ref, const Program& program, const CoreState& state) {
  const Tensor& tensor = program.tensor(ref);
  const std::int64_t size = size_bytes(ref.dtype);
  std::int64_t start = ref.offset;
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind != DynamicOffset::Kind::kRegister) return;
    const std::int64_t v = state.reg(d->reg);
    require_within(*d, v, tensor);
    start += strided(v, d->stride) * size;
  }
  require_inside(ref, tensor, start + ref.pattern->first * size,
                 start + (ref.pattern->last + 1) * size);
}

}  // namespace

void check_offsets(const Inst& inst, const Program& program, const CoreState& state) {
  constexpr std::int64_t kSkip = 1;
  const int oob = param_index(spec(inst), "oob_mode");
  if (program.timing_only() || (oob >= 0 && inst.integer(oob) == kSkip)) return;
  for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool) {
    if (ref.dynamic != nullptr) check_offsets(ref, program, state);
  });
}

void check_reducing(const Inst& inst, CoreState& state) {
  const Reducing how = reducing(inst);
  if (how == Reducing::kNot) return;
  bool& begun = inst.engine == Engine::kScalar ? state.scalar_begun : state.vector_begun;
  if (how == Reducing::kBegins) begun = true;
  if (begun) return;
  fail(Rule::reduce_register_not_begun, "reduce_cmd", "reduce",
       "reset_reduce, reset or load_reduce by an earlier instruction of the engine (its reduce "
       "registers were never set)");
}

}  // namespace nkisim::isa
