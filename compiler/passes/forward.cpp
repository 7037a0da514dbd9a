// Removes copies from PSUM to SBUF whose readers can read PSUM (pass `forward`), by this algorithm:
//
//   for each copy from PSUM to SBUF that the program marks:
//     skip it if other instructions write its result, or read its source later
//     skip it if PSUM would be more than half full until the result's last use
//     let the readers of the copy read PSUM, if all of them can, and drop the copy
#include "compiler/passes/forward.hpp"

#include <algorithm>

#include "compiler/analysis/redirect.hpp"
#include "compiler/analysis/sbuf_budget.hpp"

namespace nkisim::compiler {
namespace {

class Forwarder {
 public:
  Forwarder(isa::Program& program, isa::Uses uses)
      : program_(program),
        uses_(std::move(uses)),
        banks_(std::max<std::size_t>(program.insts().size(), 1)) {
    for (std::uint32_t t = 0; t < program.tensors().size(); ++t) {
      if (program.tensors()[t].space != isa::Space::kPsum || uses_.writes(t) == 0) continue;
      banks_.add(uses_.first(t), uses_.last(t) + 1, banks(t));
    }
  }

  bool forward(std::uint32_t copy) {
    const isa::Inst& inst = program_.insts()[copy];
    std::uint32_t from = 0, to = 0;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      (write ? to : from) = ref.tensor;
    });
    if (uses_.writes(to) != 1 || uses_.readers(to).empty() || uses_.last(from) != copy) {
      return false;
    }
    const std::uint32_t last = uses_.readers(to).back();
    const std::int64_t half = program_.machine().psum_banks / 2;
    if (last < copy || banks_.max(copy + 1, last + 1) + banks(from) > half) return false;
    if (!redirect(program_, uses_, to, from)) return false;
    banks_.add(copy + 1, last + 1, banks(from));
    return true;
  }

 private:
  [[nodiscard]] std::int64_t banks(std::uint32_t tensor) const {
    const std::int64_t bank = program_.machine().psum_bank_bytes();
    return (uses_.operands().bytes(tensor) + bank - 1) / bank;
  }

  isa::Program& program_;
  isa::Uses uses_;
  RangeMax banks_;  // of PSUM in use, by instruction
};

}  // namespace

std::vector<std::uint32_t> forward_copies(isa::Program& program, const isa::Uses& uses,
                                          std::span<const std::uint32_t> copies) {
  Forwarder forwarder(program, uses);
  std::vector<std::uint32_t> unneeded;
  for (const std::uint32_t copy : copies) {
    if (forwarder.forward(copy)) unneeded.push_back(copy);
  }
  return unneeded;
}

PassResult forward(Unit& unit) {
  isa::Program& program = unit.program;
  if (!unit.origin.open || !unit.may_drop()) return {};
  std::vector<std::uint32_t> copies;
  for (std::uint32_t i = 0; i < program.insts().size(); ++i) {
    if (program.insts()[i].forward && !program.insts()[i].pinned()) copies.push_back(i);
  }
  if (copies.empty()) return {};
  const std::vector<std::uint32_t> unneeded = forward_copies(program, unit.uses(), copies);
  program.remove(unneeded);
  return {unneeded.size()};
}

}  // namespace nkisim::compiler
