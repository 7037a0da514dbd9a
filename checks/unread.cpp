// Finds results that are overwritten before any instruction has read them.
#include "checks/unread.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "checks/loop_iterations.hpp"
#include "checks/rectangles.hpp"
#include "checks/shadow.hpp"
#include "checks/value_numbers.hpp"
#include "checks/words.hpp"
#include "isa/program/engine_state.hpp"
#include "isa/program/writes.hpp"

namespace nkisim::checks {
namespace {

using Control = isa::OpSpec::Control;

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMostPieces = 16;                    // of what is left of one result
constexpr std::size_t kMostPairs = std::size_t{1} << 20U;  // of results of one line
constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();

class Unread {
 public:
  Unread(const isa::Program& program, bool all)
      : program_(program),
        all_(all),
        shadow_(program),
        shared_(program.tensors().size(), false),
        wrote_(program.tensors().size(), false),
        used_(program.tensors().size(), false) {
    find_shared();
    find_used();
  }

  std::vector<Remark> run() {
    for_each_twice(
        program_, [&](const isa::Inst& inst) { visit(inst); }, numbers_);
    unread_results();
    return std::move(remarks_);
  }

 private:
  // One execution of one instruction that may be lost.
  struct Result {
    const isa::Inst* inst = nullptr;
    int outputs = 0;           // not yet overwritten
    std::uint64_t number = 0;  // of its values
    bool certain = true;       // whether that is exact
    bool counts = false;
    bool fill = true;                // of fills alone, so far
    std::uint32_t read_at = kNever;  // first step that read it
    std::uint32_t last_read = 0;
    const isa::TensorRef* place = nullptr;  // of its first output
    std::string_view output = {};           // its name, where each output counts for itself
    std::uint64_t sources = 0;              // the numbers of the results that it reads
    bool updates = false;                   // in place, what others have read
  };

  // HBM that more than one core touches: which of them comes first, the text does not say.
  void find_shared() {
    if (program_.cores() < 2) return;
    constexpr std::uint8_t kNoOwner = 255;
    std::vector<std::uint8_t> owner(shared_.size(), kNoOwner);
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
        if (ref.on_chip()) return;
        std::uint8_t& core = owner[ref.tensor];
        if (core != kNoOwner && core != inst.core) shared_[ref.tensor] = true;
        core = inst.core;
      });
    }
  }

  // Tensors that an instruction reads which does not write them as well: no mere sums in place.
  void find_used() {
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write) return;
        if (!writes(inst, ref.tensor)) used_[ref.tensor] = true;
      });
    }
  }

  void visit(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.control == Control::kIfBegin) ++branches_;
    if (op.control == Control::kIfEnd) --branches_;
    if (op.control != Control::kNone || (op.rendezvous && op.eval == nullptr)) return;
    numbers_.step(inst);
    const auto step = static_cast<std::uint32_t>(results_.size());
    results_.push_back({.inst = &inst, .certain = branches_ == 0 && !partial(inst)});
    const bool meets = isa::spec(inst).combine != nullptr;
    bool reads = false, defined = true;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool write) {
      if (write && !isa::reads_before(inst, param)) return;
      const isa::TensorRole role = program_.tensor(ref).role;
      reads = reads || !write;
      if (role != isa::TensorRole::kInternal || !copies(inst)) results_[step].fill = false;
      // Computing in place on what nothing has written is no computing on padding.
      defined = defined && (wrote_[ref.tensor] || role != isa::TensorRole::kInternal ||
                            (!write && writes(inst, ref.tensor)));
      read(ref, step);
      if (role == isa::TensorRole::kInput) readers_[ref.tensor].push_back(step);
    });
    results_[step].sources = results_[step].number;
    results_[step].number = numbers_.number(inst, results_[step].number);
    results_[step].counts =
        !results_[step].fill && reads && defined && (meets ? all_ : !keeps(inst));
    write(inst, step);
  }

  void write(const isa::Inst& inst, std::uint32_t step) {
    const bool apart = isa::outputs_count_apart(isa::spec(inst));
    const Result whole = results_[step];
    std::uint32_t own = step;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool write) {
      if (!write) return;
      if (apart && results_[own].outputs > 0) {
        own = static_cast<std::uint32_t>(results_.size());
        results_.push_back(whole);
      }
      if (apart) results_[own].output = param.name;
      if (whole.fill) fills_.try_emplace({line_of(inst), ref.tensor}, own);
      overwrite(inst, ref, param, own);
      wrote_[ref.tensor] = true;
    });
  }

  static bool writes(const isa::Inst& inst, std::uint32_t tensor) {
    bool found = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      found = found || (write && ref.tensor == tensor);
    });
    return found;
  }

  // A copy of what was filled is a fill: kernels clear outputs so. A product of fills is one, too:
  // PSUM is cleared so.
  static bool copies(const isa::Inst& inst) {
    return isa::spec(inst).moves == isa::OpSpec::Moves::kCopies || multiplies(inst);
  }

  static bool multiplies(const isa::Inst& inst) {
    return isa::param_index(isa::spec(inst), "accumulate") >= 0;
  }

  // True if later instructions may read results in the engine's registers. Activations without a
  // reduce operator leave none.
  static bool keeps(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.state == isa::OpSpec::State::kAlways) return true;
    const int reduce = isa::param_index(op, "reduce_op");
    const bool plain = op.name.starts_with("activat") && reduce >= 0 && !inst.has(reduce);
    return !plain && isa::reducing(inst) != isa::Reducing::kNot;
  }

  void read(const isa::TensorRef& ref, std::uint32_t step) {
    const bool in_place = ref.on_chip() && writes(*results_[step].inst, ref.tensor);
    shadow_.scan(
        {isa::static_footprint(ref, program_), &ref, step, false},
        [&](const Access& earlier) {
          Result& source = results_[earlier.step];
          results_[step].updates |= in_place && source.read_at < step;
          source.counts = false;
          source.read_at = std::min(source.read_at, step);
          source.last_read = step;
          results_[step].fill = results_[step].fill && source.fill;
          results_[step].number += source.number;
          results_[step].certain = results_[step].certain && source.certain;
          return false;
        },
        [](const Access&) { return false; });
  }

  void overwrite(const isa::Inst& inst, const isa::TensorRef& ref, const isa::Param& param,
                 std::uint32_t step) {
    const Access access{isa::static_footprint(ref, program_), &ref, step, true};
    const bool certain =
        ref.dynamic == nullptr && branches_ == 0 && !isa::leaves_parts(program_, inst, param);
    shadow_.scan(
        access,
        [&](const Access& earlier) {
          if (!certain) return false;
          if (!overwrites(access, earlier)) {
            if (all_) lose_part(earlier, access);
            return false;
          }
          if (earlier.ref->tensor == ref.tensor && earlier.step != step)
            lose(earlier.step, step, ref.tensor);
          return true;
        },
        [](const Access&) { return false; });
    if (ref.dynamic != nullptr || shared_[ref.tensor]) {
      results_[step].counts = false;
    } else {
      if (results_[step].outputs++ == 0) results_[step].place = &ref;
      shadow_.insert(access);
    }
  }

  // True if this write, together with the writes before it, leaves nothing of an earlier write.
  bool overwrites(const Access& access, const Access& earlier) {
    if (isa::covers(access.bytes, earlier.bytes, -kEverything, kEverything)) return true;
    if (access.ref->tensor != earlier.ref->tensor || !results_[earlier.step].counts) return false;
    const isa::Tensor& tensor = program_.tensor(*access.ref);
    const std::optional<Rect> gone = rectangle(*access.ref, access.bytes, tensor);
    const std::optional<Rect> all = rectangle(*earlier.ref, earlier.bytes, tensor);
    if (!gone || !all || results_[earlier.step].outputs != 1) return false;
    auto [left, fresh] = left_.try_emplace(earlier.step);
    if (fresh) left->second.push_back(*all);
    if (left->second.size() > kMostPieces) return false;
    subtract(left->second, *gone);
    return left->second.empty();
  }

  // True if two executions compute the same, so that nothing is lost: a program may repeat itself
  // to be measured. Products never count as the same, because a second one was meant to add.
  bool same(const Result& a, const Result& b) const {
    const isa::Inst &x = *a.inst, &y = *b.inst;
    if (multiplies(x)) return false;
    if (!a.certain || !b.certain) return same_words(x, y);
    return a.number == b.number;
  }

  // True if an instruction may leave parts of any destination unchanged.
  [[nodiscard]] bool partial(const isa::Inst& inst) const {
    bool leaves = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef&, const isa::Param& param, bool write) {
      leaves = leaves || (write && isa::leaves_parts(program_, inst, param));
    });
    return leaves;
  }

  // "its result", or which of its results.
  static std::string its(const Result& result) {
    return "its result" + (result.output.empty() ? "" : " " + std::string(result.output));
  }

  // True if the fill that overwrites a result has also run before it. A value that a loop carries
  // then starts anew, and nothing reads it after the last iteration.
  bool starts_anew(std::uint32_t step, std::uint32_t later, std::uint32_t tensor) const {
    if (!results_[later].fill || !used_[tensor]) return false;
    const auto first = fills_.find({line_of(*results_[later].inst), tensor});
    return first != fills_.end() && first->second < step;
  }

  void lose(std::uint32_t step, std::uint32_t later, std::uint32_t tensor) {
    Result& result = results_[step];
    if (--result.outputs > 0 || !result.counts || same(result, results_[later]) ||
        starts_anew(step, later, tensor)) {
      return;
    }
    result.counts = false;
    const isa::Inst& by = *results_[later].inst;
    remark(isa::Rule::result_lost, *result.inst, by,
           its(result) + " is lost: " + place_text(program_, by) +
               " overwrites it before anything has read it");
  }

  // A part of what nothing has read yet goes.
  void lose_part(const Access& earlier, const Access& by) {
    const Result& result = results_[earlier.step];
    if (!result.counts || earlier.ref->tensor != by.ref->tensor || earlier.step == by.step) return;
    const isa::Tensor& tensor = program_.tensor(*by.ref);
    const std::optional<Rect> a = rectangle(*earlier.ref, earlier.bytes, tensor),
                              b = rectangle(*by.ref, by.bytes, tensor);
    if (!a || !b || !meet(*a, *b)) return;
    const isa::Inst& later = *results_[by.step].inst;
    remark(isa::Rule::result_partly_lost, *result.inst, later,
           "a part of " + its(result) + " is lost: " + place_text(program_, later) +
               " overwrites it before anything has read it");
  }

  // Results that nothing has read, a remark for each line with any.
  void unread_results() {
    std::map<std::pair<Line, std::string_view>, std::vector<std::uint32_t>> steps;
    for (std::uint32_t s = 0; s < results_.size(); ++s) {
      const Result& r = results_[s];
      if (computes(*r.inst)) steps[{line_of(*r.inst), r.output}].push_back(s);
    }
    std::vector<std::pair<const isa::Inst*, std::string>> found;
    for (const auto& [line, of_line] : steps) {
      std::vector<std::size_t> unread;
      for (std::size_t i = 0; i < of_line.size(); ++i) {
        const Result& r = results_[of_line[i]];
        if (r.counts && r.outputs > 0 && !carried(of_line, i)) unread.push_back(i);
      }
      if (unread.empty() || !(all_ || certain(of_line, unread))) continue;
      const Result& first = results_[of_line[unread[0]]];
      const std::string some = " in " + std::to_string(unread.size()) + " of the " +
                               std::to_string(of_line.size()) + " times that it runs";
      found.emplace_back(first.inst, "nothing reads " + its(first) +
                                         (unread.size() == of_line.size() ? "" : some));
    }
    std::sort(found.begin(), found.end());
    for (const auto& [inst, text] : found) {
      remark(isa::Rule::result_unread, *inst, *inst, text);
    }
  }

  // True if a kernel cannot mean it: a line loads an input that none reads to any effect, or all
  // its results are unread and change a tile after its last reader; or left_over() of what is
  // computed. Some loads may be for nothing: attention_cte.py loads whole sections, of which a mask
  // leaves out blocks. step_remarks names those that no kernel means.
  [[nodiscard]] bool certain(const std::vector<std::uint32_t>& steps,
                             const std::vector<std::size_t>& unread) {
    const auto in_vain = [&](std::size_t i) { return without_effect(*results_[steps[i]].inst); };
    if (std::any_of(unread.begin(), unread.end(), in_vain)) return true;
    if (unread.size() == steps.size()) {
      return std::all_of(steps.begin(), steps.end(),
                         [&](std::uint32_t s) { return results_[s].updates; });
    }
    const auto loaded = [&](std::size_t i) { return loads(*results_[steps[i]].inst); };
    if (std::all_of(unread.begin(), unread.end(), loaded)) return false;
    for (int core = 0; core < program_.cores(); ++core) {
      std::vector<std::pair<std::uint32_t, bool>> runs;  // step, and whether it is unread
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (results_[steps[i]].inst->core != core) continue;
        runs.emplace_back(steps[i], std::binary_search(unread.begin(), unread.end(), i));
      }
      if (left_over(runs)) return true;
    }
    return false;
  }

  // True if the last result of a line is read, but its first or an earlier sum is not, as where
  // each iteration begins a sum anew. Or one of several that were made before any was read is left:
  // a tile prepared for a later iteration would be made while others are read.
  [[nodiscard]] bool left_over(const std::vector<std::pair<std::uint32_t, bool>>& runs) const {
    const auto lost = [&](std::size_t i) { return runs[i].second; };
    std::vector<std::size_t> unread;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (lost(i)) unread.push_back(i);
    }
    if (unread.empty() || unread.size() == runs.size()) return false;
    const Result& last = results_[runs.back().first];
    if (!lost(runs.size() - 1) && (lost(0) || adds(*last.inst)) &&
        !repeats(results_[runs[unread[0]].first], last)) {
      return true;
    }
    if (runs.size() * unread.size() > kMostPairs) return false;
    return std::any_of(unread.begin(), unread.end(), [&](std::size_t i) {
      if (i < 2 || lost(i - 1) || lost(i - 2)) return false;
      return std::none_of(runs.begin(), runs.end(), [&](const auto& run) {
        const Result& r = results_[run.first];
        return r.read_at != kNever && r.read_at < runs[i].first && r.last_read > runs[i - 2].first;
      });
    });
  }

  // True if an instruction copies from an input.
  [[nodiscard]] bool loads(const isa::Inst& inst) const {
    bool found = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      const isa::TensorRole role = program_.tensor(ref).role;
      found = found || (!write &&
                        (role == isa::TensorRole::kInput || role == isa::TensorRole::kInputOutput));
    });
    return found && isa::spec(inst).moves == isa::OpSpec::Moves::kCopies;
  }

  // True if two executions of a line read the same, as in a loop that is there to be measured.
  static bool repeats(const Result& a, const Result& b) {
    const auto reads = [](const isa::Inst& inst) {
      std::vector<std::tuple<std::uint32_t, std::int64_t, const void*, std::int32_t>> refs;
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (!write) refs.emplace_back(ref.tensor, ref.offset, ref.pattern, ref.partition);
      });
      return refs;
    };
    return a.sources == b.sources && reads(*a.inst) == reads(*b.inst);
  }

  // True if an instruction adds to what it writes, or changes it.
  static bool adds(const isa::Inst& inst) {
    bool found = multiplies(inst);
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      found = found || (!write && writes(inst, ref.tensor));
    });
    return found;
  }

  // True if an instruction reads an input of which no instruction's result is read.
  [[nodiscard]] bool without_effect(const isa::Inst& inst) {
    bool found = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      const auto readers = readers_.find(ref.tensor);
      if (readers == readers_.end()) return;
      const auto [vain, fresh] = in_vain_.try_emplace(ref.tensor, false);
      if (fresh) {
        vain->second =
            std::all_of(readers->second.begin(), readers->second.end(), [&](std::uint32_t s) {
              const Result& r = results_[s];
              return r.counts && r.outputs > 0 && computes(*r.inst);
            });
      }
      found = found || vain->second;
    });
    return found;
  }

  // True if only the program itself could read the results of an instruction.
  [[nodiscard]] bool computes(const isa::Inst& inst) const {
    bool internal = true;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (write) internal = internal && program_.tensor(ref).role == isa::TensorRole::kInternal;
    });
    return internal;
  }

  // True if the last execution of a line carries a value for an iteration that does not come. Then
  // the value of the execution before was read in between, or an earlier one at this place was
  // read.
  [[nodiscard]] bool carried(const std::vector<std::uint32_t>& steps, std::size_t i) const {
    if (i == 0 || i + 1 != steps.size()) return false;
    if (results_[steps[i - 1]].read_at < steps[i]) return true;
    return std::any_of(steps.begin(), steps.end() - 1, [&](std::uint32_t s) {
      return results_[s].place == results_[steps[i]].place && results_[s].read_at != kNever;
    });
  }

  void remark(isa::Rule rule, const isa::Inst& inst, const isa::Inst& other, std::string text) {
    if (remarks_.size() >= kMostRemarks || !said_.insert({line_of(inst), line_of(other)}).second) {
      return;
    }
    remarks_.push_back({&inst, rule, std::move(text)});
  }

  const isa::Program& program_;
  bool all_;  // also what is no fault by itself
  Shadow shadow_;
  std::vector<bool> shared_;  // by tensor
  std::vector<bool> wrote_;   // by tensor: something, until now
  std::vector<bool> used_;    // by tensor: by others than sums
  std::map<std::pair<Line, std::uint32_t>, std::uint32_t> fills_;  // first step of a line's fill
  std::vector<Result> results_;                                    // by step
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> readers_;  // steps, by input
  std::unordered_map<std::uint32_t, bool>
      in_vain_;  // inputs: whether no result of a reader is read
  std::unordered_map<std::uint32_t, std::vector<Rect>> left_;  // of results overwritten in part
  ValueNumbers numbers_;
  int branches_ = 0;  // open ones
  std::set<std::pair<Line, Line>> said_;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> unread_remarks(const isa::Program& program, bool all) {
  return Unread(program, all).run();
}

}  // namespace nkisim::checks
