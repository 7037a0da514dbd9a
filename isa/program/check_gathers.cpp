// Checks instruction operands that have a vector_offset or an indirect index.
#include "isa/program/check.hpp"

namespace nkisim::isa {
namespace {

void check_gather(const Param& param, const TensorRef& ref) {
  const DynamicOffset* offset = find_dynamic(ref, DynamicOffset::Kind::kVector);
  if (offset == nullptr) return;
  const std::string operand(param.name);
  if (!param.gather) {
    fail(Rule::vector_offset,
         operand + " does not support a vector_offset; only DMA operands in HBM do");
  }
  if (ref.space != Space::kHbm) {
    fail(Rule::operand_memory, operand, "on chip with a vector_offset", "a tensor in HBM");
  }
  if (find_dynamic(ref, DynamicOffset::Kind::kScalar) != nullptr ||
      find_dynamic(ref, DynamicOffset::Kind::kRegister) != nullptr) {
    fail(Rule::vector_offset,
         operand + " has a scalar_offset and a vector_offset; at most one is required");
  }
  const TensorRef& index = *offset->index;
  if (index.space != Space::kSbuf) {
    fail(Rule::operand_memory, "index of " + operand, describe(index), "a tensor in SBUF");
  }
  if (!is_integer(index.dtype)) {
    fail(Rule::operand_dtype, "index of " + operand, std::string(name(index.dtype)),
         "an integer dtype");
  }
  if (index.elements() < ref.rows()) {
    fail(Rule::index_count, "index of " + operand,
         "of " + std::to_string(index.elements()) + " indices",
         std::to_string(ref.rows()) + ", one per row,");
  }
}

}  // namespace

const DynamicOffset* find_dynamic(const TensorRef& ref, DynamicOffset::Kind kind) {
  const DynamicOffset* d = ref.dynamic;
  while (d != nullptr && d->kind != kind) d = d->next;
  return d;
}

void check_gathers(const Inst& inst, const OpSpec& op, const Program& program) {
  if (program.timing_only()) return;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (arg.kind == Arg::Kind::kTensor) check_gather(op.params[i], *arg.tensor);
    if (arg.kind == Arg::Kind::kTensors) {
      for (const TensorRef* ref : *arg.tensors) check_gather(op.params[i], *ref);
    }
  }
}

}  // namespace nkisim::isa
