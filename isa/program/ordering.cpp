// Checks each order between two instructions that a kernel asks for itself.

#include "isa/program/ordering.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace nkisim::isa {
namespace {

constexpr std::uint32_t kOutermost = 0;

// One core's instructions that others name, and the loops and branches they are in.
class OrderCheck {
 public:
  OrderCheck(const Program& program, int core, bool earlier) : program_(program), core_(core) {
    collect();
    for (const Place& place : places_) check(place, earlier);
  }

 private:
  struct Place {
    std::size_t inst;
    std::uint32_t block;
  };

  void collect() {
    std::uint32_t block = kOutermost;
    for (std::size_t i = 0; i < program_.insts().size(); ++i) {
      const Inst& inst = program_.insts()[i];
      if (inst.core != core_) continue;
      block = block_after(spec(inst).control, block);
      if (inst.ordering == 0) continue;
      places_.push_back({i, block});
      const std::uint32_t id = program_.ordering(inst).id;
      if (id == 0 || by_id_.emplace(id, places_.back()).second) continue;
      refuse(inst, "id " + std::to_string(id) + " is also that of " +
                       called(program_.insts()[by_id_.at(id).inst], program_) +
                       "; ids of a core are unique");
    }
  }

  std::uint32_t block_after(OpSpec::Control control, std::uint32_t block) {
    using enum OpSpec::Control;
    if (control == kNone) return block;
    const bool ends =
        control == kLoopEnd || control == kWhileEnd || control == kIfEnd || control == kElseBegin;
    if (ends) block = parents_[block];
    if (ends && control != kElseBegin) return block;
    parents_.push_back(block);
    return static_cast<std::uint32_t>(parents_.size() - 1);
  }

  [[nodiscard]] bool inside(std::uint32_t block, std::uint32_t outer) const {
    while (block > outer) block = parents_[block];
    return block == outer;
  }

  void check(const Place& place, bool earlier) const {
    const Inst& inst = program_.insts()[place.inst];
    try {
      check_orderable(inst);
    } catch (Error& e) {
      e.at(spec(inst).name, inst.loc);
      program_.locate(e);
      throw;
    }
    for (const std::uint32_t id : program_.ordering(inst).after) {
      const auto found = by_id_.find(id);
      if (found == by_id_.end()) {
        refuse(inst, "after names id " + std::to_string(id) + ", which no instruction of core " +
                         std::to_string(core_) + " has");
      }
      const Inst& before = program_.insts()[found->second.inst];
      if (!inside(place.block, found->second.block)) {
        refuse(inst, "is to run after " + called(before, program_) +
                         ", which is in a loop or branch of the device that this one is not in; "
                         "one in the same loop or around it is required");
      }
      if (earlier && found->second.inst >= place.inst) {
        refuse(inst, "is to run after " + called(before, program_) +
                         ", which comes later; an earlier instruction is required in a program "
                         "with addresses");
      }
    }
  }

  [[noreturn]] void refuse(const Inst& inst, const std::string& message) const {
    Error e(Rule::ordering, message);
    e.at(spec(inst).name, inst.loc);
    program_.locate(e);
    throw e;
  }

  const Program& program_;
  int core_;
  std::vector<std::uint32_t> parents_{kOutermost};  // by block; ascending inwards
  std::vector<Place> places_;
  std::unordered_map<std::uint32_t, Place> by_id_;
};

}  // namespace

void check_ordering(const Program& program, bool earlier) {
  if (!program.ordered()) return;
  if (program.explicit_semaphores()) {
    Error e(Rule::ordering,
            "id or after is given with explicit semaphores; wait and post are required there");
    program.locate(e);
    throw e;
  }
  for (int core = 0; core < program.cores(); ++core) OrderCheck(program, core, earlier);
}

void check_orderable(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.control == OpSpec::Control::kNone && !op.on_sequencer) return;
  fail(Rule::ordering,
       "runs on the sequencers, in the program's order; an instruction of an engine is required "
       "where one is to be ordered");
}

std::string called(const Inst& inst, const Program& program) {
  std::string text(inst.label != nullptr ? *inst.label : std::string(spec(inst).name));
  const std::string place = program.kernel_place(inst);
  if (!place.empty()) return text + " (" + place + ")";
  if (inst.loc.trace_line != 0) text += " (line " + std::to_string(inst.loc.trace_line) + ")";
  return text;
}

}  // namespace nkisim::isa
