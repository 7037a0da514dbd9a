// Defines the inline functions of op_spec.hpp, which visit the tensor operands of an instruction.
#pragma once

namespace nkisim::isa {

inline constexpr Param kIndexParam = {.name = "index", .kind = ParamKind::kIn};

namespace detail {
template <typename Fn>
void visit_ref(const TensorRef& ref, const Param& param, Fn& fn) {
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->index != nullptr) fn(*d->index, kIndexParam, false);
  }
  fn(ref, param, is_written(param.kind));
}
}  // namespace detail

template <typename Fn>
void for_each_tensor(const Inst& inst, Fn&& fn, std::uint32_t operands) {
  const auto params = spec(inst).params;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    if (operands != 0 && ((operands >> i) & 1U) == 0) continue;
    const Arg& arg = inst.args[i];
    if (arg.kind == Arg::Kind::kTensor) detail::visit_ref(*arg.tensor, params[i], fn);
    if (arg.kind == Arg::Kind::kTensors) {
      for (const TensorRef* ref : *arg.tensors) detail::visit_ref(*ref, params[i], fn);
    }
  }
}

}  // namespace nkisim::isa
