// Gives a tile new storage each time it is loaded anew (pass `rename`), by this algorithm:
//
//   exclude tiles with addresses, tiles used after the first loop or branch,
//     and (`whole`) tiles that an instruction uses in part
//   for each instruction in program order:
//     a DMA that overwrites a used tile as a whole gives the tile new storage from here on
//     apply the present storage to the instruction's operands
#include "compiler/passes/rename.hpp"

#include <algorithm>
#include <string>

#include "compiler/analysis/remap.hpp"
#include "isa/program/footprint.hpp"
#include "isa/program/world.hpp"

namespace nkisim::compiler {
namespace {

class Renamer {
 public:
  Renamer(isa::Program& program, const std::vector<bool>& placed, const isa::Uses& uses, bool whole)
      : program_(program),
        operands_(uses.operands()),
        now_(program),
        may_(program.tensors().size(), true) {
    for (std::uint32_t t = 0; t < may_.size(); ++t) {
      may_[t] = !placed[t] && program.tensors()[t].space == isa::Space::kSbuf;
    }
    used_.assign(may_.size(), false);
    exclude_spanning(uses);
    if (whole) exclude_parts();
  }

  std::vector<std::pair<std::uint32_t, std::uint32_t>> run() {
    const std::size_t count = program_.insts().size();
    for (std::size_t i = 0; i < count; ++i) rename(i);
    return std::move(made_);
  }

 private:
  // A tensor of several stretches may carry values around a loop, and inside a loop's body a first
  // value may be the previous iteration's last: what is used before the first loop or branch alone.
  void exclude_spanning(const isa::Uses& uses) {
    if (program_.control_flow().empty()) return;
    const std::size_t end = program_.control_flow().front();
    for (std::uint32_t t = 0; t < may_.size(); ++t) {
      may_[t] = may_[t] && (!uses.any(t) || uses.last(t) < end);
    }
  }

  void exclude_parts() {
    for (std::size_t i = 0; i < operands_.instructions(); ++i) {
      for (const isa::Operand& operand : operands_.of(i)) {
        if (!operand.is(isa::Operand::kWhole)) may_[operand.tensor()] = false;
      }
    }
  }

  [[nodiscard]] bool overwrites(const isa::Inst& inst, std::uint32_t tensor) const {
    if (!isa::spec(inst).dma || isa::may_keep(program_, inst)) return false;
    bool whole = false, reads = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      reads |= ref.dynamic != nullptr;  // rows out of range may be left as they are
      if (ref.tensor != tensor) return;
      reads |= !write;
      whole |= write && isa::reaches_all(ref, program_);
    });
    return whole && !reads;
  }

  void rename(std::size_t i) {
    bool changes = false;
    for (const isa::Operand& operand : operands_.of(i)) {
      const std::uint32_t t = operand.tensor();
      if (!may_[t]) continue;
      if (operand.write() && used_[t] && overwrites(program_.insts()[i], t)) {
        now_.set(t, another(t));
      }
      used_[t] = true;
      changes |= now_(t) != t;
    }
    if (changes) now_.apply(i);
  }

  std::uint32_t another(std::uint32_t t) {
    isa::Tensor copy = program_.tensors()[t];
    copy.name += '~';
    copy.name += std::to_string(made_.size() + 1);
    const std::uint32_t id = program_.add_tensor(std::move(copy));
    made_.emplace_back(id, t);
    return id;
  }

  isa::Program& program_;
  const isa::Operands& operands_;  // before any is renamed
  Remap now_;                      // its current storage
  std::vector<bool> may_, used_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> made_;
};

}  // namespace

std::vector<std::pair<std::uint32_t, std::uint32_t>> rename_tiles(isa::Program& program,
                                                                  const std::vector<bool>& placed,
                                                                  const isa::Uses& uses,
                                                                  bool whole) {
  return Renamer(program, placed, uses, whole).run();
}

PassResult rename(Unit& unit) {
  const Choices& choices = unit.choices;
  if (choices.rename == Rename::k_none || choices.schedule == IssueOrder::k_program) return {};
  if (unit.program.explicit_semaphores()) return {};
  return {rename_tiles(unit.program, unit.final_addresses(), unit.uses(),
                       choices.rename == Rename::k_whole)
              .size()};
}

}  // namespace nkisim::compiler
