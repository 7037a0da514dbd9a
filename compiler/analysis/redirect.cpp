// Makes all readers of one tensor read another tensor instead, if each of them can.
#include "compiler/analysis/redirect.hpp"

#include "isa/program/check.hpp"

namespace nkisim::compiler {
namespace {

std::vector<isa::Arg> replaced(isa::Program& program, const isa::Inst& inst, std::uint32_t from,
                               std::uint32_t to) {
  std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
  const isa::Tensor &old = program.tensors()[from], &next = program.tensors()[to];
  for (isa::Arg& arg : args) {
    if (arg.kind != isa::Arg::Kind::kTensor || arg.tensor->tensor != from) continue;
    isa::TensorRef ref = *arg.tensor;
    ref.partition = static_cast<std::uint16_t>(ref.partition - old.partition + next.partition);
    ref.tensor = to;
    ref.space = next.space;
    arg.tensor = program.add_ref(ref);
  }
  return args;
}

}  // namespace

bool redirect(isa::Program& program, isa::Uses& uses, std::uint32_t from, std::uint32_t to) {
  if (!uses.direct(from)) return false;
  const isa::Uses::Numbers readers = uses.readers(from);
  const bool same_space = program.tensors()[from].space == program.tensors()[to].space;
  std::vector<std::vector<isa::Arg>> changed;
  for (const std::uint32_t i : readers) {
    isa::Inst probe = program.insts()[i];
    changed.push_back(replaced(program, probe, from, to));
    probe.args = changed.back();
    if (isa::spec(probe).dma && !same_space) return false;
    try {
      isa::check_inst(probe, program);
    } catch (const isa::Error&) {
      return false;
    }
  }
  for (std::size_t k = 0; k < readers.size(); ++k) program.set_args(readers[k], changed[k]);
  uses.redirect(from, to);
  return true;
}

}  // namespace nkisim::compiler
