#include "checks/unread.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "checks/shadow.hpp"
#include "checks/words.hpp"
#include "isa/engine_state.hpp"

namespace nkisim::checks {
namespace {

using Control = isa::OpSpec::Control;

constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();

bool same_argument(const isa::Arg& a, const isa::Arg& b) {
  if (a.kind != b.kind) return false;
  if (a.kind != isa::Arg::Kind::kTensor) return a.integer == b.integer;
  const isa::TensorRef &x = *a.tensor, &y = *b.tensor;
  return x.tensor == y.tensor && x.offset == y.offset && x.pattern == y.pattern &&
         x.dynamic == y.dynamic && x.partition == y.partition && x.partitions == y.partitions &&
         x.dtype == y.dtype;
}

class Unread {
 public:
  explicit Unread(const isa::Program& program)
      : program_(program),
        shadow_(program),
        shared_(program.tensors().size(), false),
        writes_(program.tensors().size(), 0) {
    find_shared();
  }

  std::vector<Remark> run() {
    const auto& insts = program_.insts();
    std::vector<std::size_t> loops;  // where the bodies begin that are gone through once more
    for (std::size_t i = 0; i < insts.size(); ++i) {
      const Control control = isa::spec(insts[i]).control;
      if (control == Control::kLoopBegin || control == Control::kWhileBegin) {
        loops.push_back(loops.empty() ? i : kNowhere);  // inner ones repeat with the outer one
      }
      if (control == Control::kLoopEnd || control == Control::kWhileEnd) {
        const std::size_t again = loops.back();
        loops.pop_back();
        if (again != kNowhere) {
          for (std::size_t k = again + 1; k < i; ++k) visit(insts[k]);
        }
        continue;
      }
      visit(insts[i]);
    }
    return std::move(remarks_);
  }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // One execution of one instruction that may be lost.
  struct Result {
    const isa::Inst* inst = nullptr;
    int outputs = 0;            // not yet overwritten
    std::uint64_t sources = 0;  // writes of the tensors that it read, until then
    bool counts = false;
  };

  // HBM that more than one core touches: which of them comes first, the text does not say.
  void find_shared() {
    if (program_.cores() < 2) return;
    constexpr std::uint8_t kNobody = 255;
    std::vector<std::uint8_t> owner(shared_.size(), kNobody);
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
        if (ref.on_chip()) return;
        std::uint8_t& core = owner[ref.tensor];
        if (core != kNobody && core != inst.core) shared_[ref.tensor] = true;
        core = inst.core;
      });
    }
  }

  void visit(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.control == Control::kIfBegin) ++branches_;
    if (op.control == Control::kIfEnd) --branches_;
    if (op.control != Control::kNone || (op.rendezvous && op.eval == nullptr)) return;
    const auto step = static_cast<std::uint32_t>(results_.size());
    results_.push_back({.inst = &inst});
    bool reads = false, defined = true;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool write) {
      if (write && !reads_too(inst, param)) return;
      const isa::TensorRole role = program_.tensor(ref).role;
      reads = reads || !write;
      defined = defined && (writes_[ref.tensor] != 0 || role != isa::TensorRole::kInternal);
      results_[step].sources += writes_[ref.tensor];
      read(ref, step);
    });
    results_[step].counts = reads && defined && op.combine == nullptr && !keeps(inst);
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (!write) return;
      overwrite(inst, ref, step);
      ++writes_[ref.tensor];
    });
  }

  // What it leaves in registers of its engine may be read, too. Activations without an operator to
  // reduce with leave nothing there.
  static bool keeps(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.state == isa::OpSpec::State::kAlways) return true;
    const int reduce = isa::param_index(op, "reduce_op");
    const bool plain = op.name.starts_with("activat") && reduce >= 0 && !inst.has(reduce);
    return !plain && isa::reducing(inst) != isa::Reducing::kNot;
  }

  // Whether what an instruction writes depends on what was there: a matmul that adds, a DMA that
  // accumulates, parts that it leaves.
  static bool reads_too(const isa::Inst& inst, const isa::Param& param) {
    const auto given = [&](std::string_view name) {
      const int i = isa::param_index(isa::spec(inst), name);
      return i >= 0 && inst.integer(i) != 0;
    };
    return param.kind == isa::ParamKind::kInOut || given("accumulate") || given("dst_rmw_op");
  }

  void read(const isa::TensorRef& ref, std::uint32_t step) {
    shadow_.scan(
        {models::static_footprint(ref, program_), &ref, step, false},
        [&](const Access& earlier) {
          results_[earlier.step].counts = false;
          return false;
        },
        [](const Access&) { return false; });
  }

  void overwrite(const isa::Inst& inst, const isa::TensorRef& ref, std::uint32_t step) {
    const Access access{models::static_footprint(ref, program_), &ref, step, true};
    const bool certain = ref.dynamic == nullptr && branches_ == 0 && !partial(inst);
    shadow_.scan(
        access,
        [&](const Access& earlier) {
          if (!certain || !models::covers(access.bytes, earlier.bytes, -kEverything, kEverything)) {
            return false;
          }
          if (earlier.ref->tensor == ref.tensor && earlier.step != step)
            lose(earlier.step, step, ref);
          return true;
        },
        [](const Access&) { return false; });
    if (ref.dynamic != nullptr || shared_[ref.tensor]) {
      results_[step].counts = false;
    } else {
      ++results_[step].outputs;
      shadow_.insert(access);
    }
  }

  // Whether two executions compute the same: nothing is lost then. A store that is repeated as it
  // is written belongs to a program that repeats itself; a product that is begun anew was meant to
  // add.
  bool same(const Result& a, const Result& b, const isa::TensorRef& written) const {
    const isa::Inst &x = *a.inst, &y = *b.inst;
    if (x.op != y.op || isa::param_index(isa::spec(x), "accumulate") >= 0) return false;
    if (a.sources != b.sources && written.on_chip()) return false;
    return &x == &y ||
           std::equal(x.args.begin(), x.args.end(), y.args.begin(), y.args.end(), same_argument);
  }

  // Whether an instruction may leave parts of its destination as they are.
  static bool partial(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    const int oob = isa::param_index(op, "oob_mode");
    return (oob >= 0 && inst.integer(oob) != 0) || isa::param_index(op, "predicate") >= 0;
  }

  void lose(std::uint32_t step, std::uint32_t later, const isa::TensorRef& written) {
    Result& result = results_[step];
    if (--result.outputs > 0 || !result.counts || same(result, results_[later], written)) {
      return;
    }
    const isa::Inst& by = *results_[later].inst;
    if (remarks_.size() >= kMostRemarks) return;
    if (!said_.insert({line_of(*result.inst), line_of(by)}).second) return;
    remarks_.push_back({result.inst,
                        "its result is lost: " + place_text(program_, by) +
                            " overwrites it before anything has read it",
                        false});
  }

  const isa::Program& program_;
  Shadow shadow_;
  std::vector<bool> shared_;           // by tensor
  std::vector<std::uint32_t> writes_;  // by tensor: how many until now
  std::vector<Result> results_;        // by step
  int branches_ = 0;                   // open ones
  std::set<std::pair<Line, Line>> said_;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> unread_remarks(const isa::Program& program) { return Unread(program).run(); }

}  // namespace nkisim::checks
