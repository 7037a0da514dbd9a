// Checks the hints of the Python front end in a program, such as `forward` (a copy that may be
// removed).
#include "compiler/analysis/checks.hpp"

#include "isa/program/footprint.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::compiler {
namespace {

bool may_forward(const isa::Inst& inst, const isa::Program& program) {
  const isa::OpSpec& op = isa::spec(inst);
  if (op.only_copies == nullptr || !op.only_copies(inst)) return false;
  bool may = true;
  const isa::Tensor *from = nullptr, *to = nullptr;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    may = may && ref.on_chip() && !program.tensor(ref).fixed && isa::is_whole(ref, program);
    (write ? to : from) = &program.tensor(ref);
  });
  return may && from != nullptr && to != nullptr && from->space == isa::Space::kPsum &&
         to->space == isa::Space::kSbuf && from->dtype == to->dtype &&
         from->shape[0] == to->shape[0] && from->extent_bytes() == to->extent_bytes();
}

void check_forward(const isa::Program& program) {
  for (const isa::Inst& inst : program.insts()) {
    if (!inst.forward || may_forward(inst, program)) continue;
    isa::Error e(isa::Rule::tensor_note,
                 "forward is true; a copy of a whole PSUM tensor to a whole SBUF tensor of the "
                 "same partitions and dtype, both without address, is required");
    e.at(isa::spec(inst).name, inst.loc);
    program.locate(e);
    throw e;
  }
}

void check_births(const isa::Program& program, const isa::Uses& uses) {
  for (std::uint32_t t = 0; t < program.tensors().size(); ++t) {
    const isa::Tensor& tensor = program.tensors()[t];
    if (!uses.any(t) || tensor.born <= uses.first(t)) continue;
    isa::Error e(isa::Rule::tensor_note, "tensor " + tensor.name + " is born at instruction " +
                                             std::to_string(tensor.born) + "; one of at most " +
                                             std::to_string(uses.first(t)) +
                                             ", its first use, is required");
    e.at("ndarray", {.kernel_file = tensor.file, .kernel_line = tensor.line});
    program.locate(e);
    throw e;
  }
}

}  // namespace

void check_recorded(Unit& unit) {
  const isa::Program& program = unit.program;
  check_forward(program);
  if (!unit.origin.open) return;
  if (program.explicit_semaphores()) {
    isa::Error e(isa::Rule::open_with_semaphores,
                 "the program has explicit semaphores; derived ones are required where the "
                 "compiler chooses addresses: it reuses storage that only they could order");
    program.locate(e);
    throw e;
  }
  check_births(program, unit.uses());
}

}  // namespace nkisim::compiler
