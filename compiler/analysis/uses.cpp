#include "compiler/analysis/uses.hpp"

#include "isa/program/check.hpp"

namespace nkisim::compiler {
namespace {

// Empty if the tensor is used in a way that cannot be redirected.
std::vector<isa::Arg> replaced(isa::Program& program, const isa::Inst& inst, std::uint32_t from,
                               std::uint32_t to) {
  std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
  std::size_t found = 0, wanted = 0;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    if (ref.tensor == from) ++wanted;
  });
  const isa::Tensor &old = program.tensors()[from], &next = program.tensors()[to];
  for (isa::Arg& arg : args) {
    if (arg.kind != isa::Arg::Kind::kTensor || arg.tensor->tensor != from) continue;
    isa::TensorRef ref = *arg.tensor;
    ref.partition = static_cast<std::uint16_t>(ref.partition - old.partition + next.partition);
    ref.tensor = to;
    ref.space = next.space;
    arg.tensor = program.add_ref(ref);
    ++found;
  }
  if (found != wanted) args.clear();
  return args;
}

}  // namespace

std::vector<Uses> uses_of(const isa::Program& program) {
  std::vector<Uses> uses(program.tensors().size());
  std::uint32_t i = 0;
  for (const isa::Inst& inst : program.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      Uses& u = uses[ref.tensor];
      if (u.writes == 0 && u.readers.empty()) u.first = i;
      u.last = i;
      if (write) {
        ++u.writes;
      } else if (u.readers.empty() || u.readers.back() != i) {
        u.readers.push_back(i);
      }
    });
    ++i;
  }
  return uses;
}

bool redirect(isa::Program& program, const std::vector<std::uint32_t>& readers, std::uint32_t from,
              std::uint32_t to) {
  const bool same_space = program.tensors()[from].space == program.tensors()[to].space;
  std::vector<std::vector<isa::Arg>> changed;
  for (const std::uint32_t i : readers) {
    isa::Inst probe = program.insts()[i];
    changed.push_back(replaced(program, probe, from, to));
    probe.args = changed.back();
    if (changed.back().empty() || (isa::spec(probe).dma && !same_space)) return false;
    try {
      isa::check_inst(probe, program);
    } catch (const isa::Error&) {
      return false;
    }
  }
  for (std::size_t k = 0; k < readers.size(); ++k) program.set_args(readers[k], changed[k]);
  return true;
}

}  // namespace nkisim::compiler
