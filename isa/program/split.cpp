// Pairs each prepare of a collective operation with its trigger, and compares the two.

#include "isa/program/split.hpp"

#include <vector>

#include "isa/program/check.hpp"

namespace nkisim::isa {
namespace {

using Control = OpSpec::Control;
using Part = Collective::Part;

Part part_of(const Inst& inst) { return spec(inst).collective.part; }

int param(const Inst& inst, std::string_view name) { return param_index(spec(inst), name); }

bool same_operand(const TensorRef& a, const TensorRef& b) {
  return a.tensor == b.tensor && a.offset == b.offset && a.partition == b.partition &&
         a.pattern == b.pattern;
}

// The first fact in which a prepare differs from another one or from its trigger; empty: none.
std::string_view difference(const Inst& a, const Inst& b) {
  if (spec(a).collective.kind != spec(b).collective.kind) return "operation";
  if (a.list(param(a, "replica_group")) != b.list(param(b, "replica_group")))
    return "replica_group";
  if (a.flag(param(a, "has_rdispls")) != b.flag(param(b, "has_rdispls"))) return "has_rdispls";
  const TensorRef& mine = a.tensor(param(a, "metadata_tensor"));
  return same_operand(mine, b.tensor(param(b, "metadata_tensor"))) ? "" : "metadata_tensor";
}

std::string named(const Program& program, const Inst& inst) {
  std::string place = program.kernel_place(inst);
  if (place.empty() && inst.loc.trace_line != 0)
    place = "line " + std::to_string(inst.loc.trace_line);
  return std::string(spec(inst).name) + (place.empty() ? "" : " at " + place);
}

// One core in program order. Since a block must end with what it began with, each execution is one
// of these.
class Scan {
 public:
  explicit Scan(const Program& program) : program_(program) {}

  void see(const Inst& inst) {
    const OpSpec& op = spec(inst);
    if (op.control != Control::kNone) return at_block(op.control);
    if (part_of(inst) == Part::kPrepare) return prepare(inst);
    if (part_of(inst) == Part::kTrigger) return trigger(inst);
    if (open_ == nullptr) return;
    const std::uint32_t metadata = open_->tensor(param(*open_, "metadata_tensor")).tensor;
    for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool written) {
      if (!written || ref.tensor != metadata) return;
      fail(Rule::collective_split, "metadata_tensor",
           "written between " + named(program_, *open_) + " and its trigger",
           "a write after the trigger");
    });
  }

  [[nodiscard]] const Inst* open() const { return open_; }

 private:
  void prepare(const Inst& inst) {
    if (open_ != nullptr) {
      fail(Rule::collective_split, named(program_, *open_) +
                                       " has no trigger before another prepare; one trigger after "
                                       "each prepare is required");
    }
    open_ = &inst;
  }

  void trigger(const Inst& inst) {
    if (open_ == nullptr) {
      fail(Rule::collective_split, std::string(spec(inst).name) +
                                       " comes without a prepare before it; one trigger after each "
                                       "prepare is required");
    }
    const std::string_view what = difference(*open_, inst);
    if (!what.empty()) {
      fail(Rule::collective_split, std::string(spec(inst).name) + " has another " +
                                       std::string(what) + " than its prepare, " +
                                       named(program_, *open_) + "; the same is required");
    }
    open_ = nullptr;
  }

  void at_block(Control control) {
    const bool begins = control == Control::kLoopBegin || control == Control::kWhileBegin ||
                        control == Control::kIfBegin;
    if (begins) return begun_.push_back(open_);
    const Inst* before = begun_.back();
    const bool same = before == open_ || (before != nullptr && open_ != nullptr &&
                                          difference(*before, *open_).empty());
    if (!same) {
      fail(Rule::collective_split,
           "a loop or branch begins and ends with different prepared operations; the same is "
           "required");
    }
    if (control == Control::kElseBegin) {
      open_ = before;
    } else {
      begun_.pop_back();
    }
  }

  const Program& program_;
  const Inst* open_ = nullptr;  // the prepare that waits for its trigger
  std::vector<const Inst*> begun_;
};

[[noreturn]] void locate(Error& e, const Inst& inst, const Program& program) {
  e.at(spec(inst).name, inst.loc);
  program.locate(e);
  throw e;
}

}  // namespace

void check_splits(const Program& program) {
  std::vector<Scan> cores(static_cast<std::size_t>(program.cores()), Scan(program));
  for (const Inst& inst : program.insts()) {
    try {
      cores[inst.core].see(inst);
    } catch (Error& e) {
      locate(e, inst, program);
    }
  }
  for (const Scan& core : cores) {
    if (core.open() == nullptr) continue;
    Error e(Rule::collective_split, std::string(spec(*core.open()).name) +
                                        " has no trigger; one after each prepare is required");
    locate(e, *core.open(), program);
  }
}

}  // namespace nkisim::isa
