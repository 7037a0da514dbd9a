#include "compiler/passes/forward.hpp"

#include <algorithm>

#include "compiler/analysis/room.hpp"
#include "compiler/analysis/uses.hpp"

namespace nkisim::compiler {
namespace {

class Forwarder {
 public:
  explicit Forwarder(isa::Program& program)
      : program_(program),
        uses_(uses_of(program)),
        banks_(std::max<std::size_t>(program.insts().size(), 1)) {
    for (std::uint32_t t = 0; t < uses_.size(); ++t) {
      const Uses& u = uses_[t];
      if (program.tensors()[t].space != isa::Space::kPsum || u.writes == 0) continue;
      banks_.add(u.first, u.last + 1, banks(t));
    }
  }

  bool forward(std::uint32_t copy) {
    const isa::Inst& inst = program_.insts()[copy];
    std::uint32_t from = 0, to = 0;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      (write ? to : from) = ref.tensor;
    });
    Uses& psum = uses_[from];
    const Uses& sbuf = uses_[to];
    if (sbuf.writes != 1 || sbuf.readers.empty() || psum.last != copy) return false;
    const std::uint32_t last = sbuf.readers.back();
    const std::int64_t half = program_.machine().psum_banks / 2;
    if (last < copy || banks_.max(copy + 1, last + 1) + banks(from) > half) return false;
    if (!redirect(program_, sbuf.readers, to, from)) return false;
    banks_.add(copy + 1, last + 1, banks(from));
    psum.last = last;
    return true;
  }

 private:
  [[nodiscard]] std::int64_t banks(std::uint32_t tensor) const {
    const std::int64_t bank = program_.machine().psum_bank_bytes();
    return (program_.tensors()[tensor].extent_bytes() + bank - 1) / bank;
  }

  isa::Program& program_;
  std::vector<Uses> uses_;
  RangeMax banks_;  // of PSUM in use, by instruction
};

}  // namespace

std::vector<std::uint32_t> forward_copies(isa::Program& program,
                                          std::span<const std::uint32_t> copies) {
  Forwarder forwarder(program);
  std::vector<std::uint32_t> unneeded;
  for (const std::uint32_t copy : copies) {
    if (forwarder.forward(copy)) unneeded.push_back(copy);
  }
  return unneeded;
}

Done forward(Unit& unit) {
  isa::Program& program = unit.program;
  if (!unit.origin.open || !unit.may_drop()) return {};
  std::vector<std::uint32_t> copies;
  for (std::uint32_t i = 0; i < program.insts().size(); ++i) {
    if (program.insts()[i].forward && !program.insts()[i].pinned()) copies.push_back(i);
  }
  const std::vector<std::uint32_t> unneeded = forward_copies(program, copies);
  program.remove(unneeded);
  return {unneeded.size()};
}

}  // namespace nkisim::compiler
