// Checks a program without running it, and returns each finding as a Remark.
//
// They find waits that no post to the semaphore can end, reads of tiles that nothing has written,
// tensors in HBM that overlap, and messages that a core sends to itself.
#include "checks/statics.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "checks/inplace.hpp"
#include "checks/unread.hpp"
#include "checks/words.hpp"
#include "isa/program/core_state.hpp"
#include "isa/program/engine_state.hpp"

namespace nkisim::checks {
namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;

std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kEndless / b ? kEndless : a * b;
}

// The most times that the body of a loop runs.
std::int64_t trips(const isa::Inst& begin) {
  if (isa::spec(begin).control != isa::OpSpec::Control::kLoopBegin) return kEndless;
  for (const int bound : {1, 2, 3}) {
    if (begin.arg(bound).kind == isa::Arg::Kind::kRegister) return kEndless;
  }
  const std::int64_t step = std::max<std::int64_t>(begin.integer(3, 1), 1);
  const std::int64_t span = begin.integer(2) - begin.integer(1);
  return span <= 0 ? 0 : (span + step - 1) / step;
}

// The range of values that the posts to a semaphore can give it.
struct Reach {
  std::int64_t up = 0, down = 0, highest_set = 0, lowest_set = 0;
  bool posted = false;

  void add(const isa::SemaphorePost& p, std::int64_t count) {
    using enum isa::SemaphorePost::Action;
    posted = true;
    const std::int64_t by = p.action == kIncrement || p.action == kDecrement ? 1 : p.value;
    if (p.action == kSet) {
      highest_set = std::max(highest_set, by);
      lowest_set = std::min(lowest_set, by);
    } else if ((p.action == kIncrement || p.action == kAdd) == (by >= 0)) {
      up = std::min(kEndless, up + times(std::abs(by), count));
    } else {
      down = std::min(kEndless, down + times(std::abs(by), count));
    }
  }
  [[nodiscard]] std::int64_t highest() const { return std::min(kEndless, highest_set + up); }
  [[nodiscard]] std::int64_t lowest() const { return std::max(-kEndless, lowest_set - down); }
  [[nodiscard]] bool meets(const isa::SemaphoreWait& w) const {
    using enum isa::SemaphoreWait::Compare;
    switch (w.compare) {
      case kGe:
        return highest() >= w.value;
      case kGt:
        return highest() > w.value;
      case kLe:
        return lowest() <= w.value;
      case kLt:
        return lowest() < w.value;
      case kEq:
        return highest() >= w.value && lowest() <= w.value;
    }
    return true;
  }
};

class Statics {
 public:
  Statics(const isa::Program& program, const isa::SemaphoreNames& names)
      : program_(program), names_(names) {}

  std::vector<Remark> run() {
    if (program_.explicit_semaphores()) {
      count_posts();
      for (const isa::Inst& inst : program_.insts()) look_at_waits(inst);
    }
    if (!program_.timing_only()) look_at_reads();
    return std::move(remarks_);
  }

 private:
  static std::uint32_t key(std::uint8_t core, std::uint16_t id) {
    return static_cast<std::uint32_t>(core) << 16U | id;
  }
  void remark(const isa::Inst& inst, isa::Rule rule, std::string text) {
    if (remarks_.size() < kMostRemarks) remarks_.push_back({&inst, rule, std::move(text)});
  }

  void count_posts() {
    std::vector<std::vector<std::int64_t>> blocks(static_cast<std::size_t>(program_.cores()), {1});
    for (const isa::Inst& inst : program_.insts()) {
      auto& open = blocks.at(inst.core);
      const std::int64_t count = open.back();
      using Control = isa::OpSpec::Control;
      const Control control = isa::spec(inst).control;
      if (opens_loop(inst)) {
        open.push_back(times(count, trips(inst)));
      } else if (control == Control::kIfBegin) {
        open.push_back(count);
      } else if (control == Control::kLoopEnd || control == Control::kWhileEnd ||
                 control == Control::kIfEnd) {
        open.pop_back();
      }
      if (inst.sync != nullptr) {
        for (const auto& p : inst.sync->posts) reach_[key(inst.core, p.semaphore)].add(p, count);
      }
      if (inst.dma == nullptr || inst.dma->semaphore < 0) continue;
      const auto id = static_cast<std::uint16_t>(inst.dma->semaphore);
      reach_[key(inst.core, id)].add(
          {id, isa::SemaphorePost::Action::kAdd, false, inst.dma->increment}, count);
    }
  }

  void look_at_waits(const isa::Inst& inst) {
    if (inst.sync == nullptr) return;
    for (const isa::SemaphoreWait& w : inst.sync->waits) {
      const auto at = reach_.find(key(inst.core, w.semaphore));
      const Reach reach = at == reach_.end() ? Reach() : at->second;
      if (reach.meets(w)) continue;
      std::string text = "waits for " + condition_text(w, names_);
      if (!reach.posted) {
        text += ", and nothing posts to that semaphore";
      } else {
        text += ", which is never reached: all posts together give " +
                std::to_string(w.value > 0 ? reach.highest() : reach.lowest());
      }
      remark(inst, isa::Rule::wait_never_met, std::move(text));
    }
  }

  // Within a loop, what its body writes counts from the beginning; of several cores, everything.
  void look_at_reads() {
    own_.assign(program_.tensors().size(), false);
    said_ = wrote_ = own_;
    const auto& insts = program_.insts();
    std::size_t ahead = program_.cores() > 1 ? insts.size() : 0;
    for (std::size_t i = 0; i < insts.size(); ++i) {
      if (opens_loop(insts[i]) && ahead <= i) ahead = end_of_loop(i);
      for (; noted_ < std::max(ahead, i); ++noted_) note_writes(insts[noted_]);
      look_at_reads(insts[i]);
    }
  }

  void look_at_reads(const isa::Inst& inst) {
    if (isa::spec(inst).eval == nullptr && isa::spec(inst).combine == nullptr) return;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool write) {
      if (write || said_[ref.tensor] || defined(ref.tensor)) return;
      said_[ref.tensor] = true;
      remark(inst, isa::Rule::tile_never_written,
             std::string(param.name) + " reads " + program_.tensor(ref).name +
                 ", which nothing has written before");
    });
  }

  bool defined(std::uint32_t id) {
    if (own_[id]) return true;
    using enum isa::TensorRole;
    const isa::Tensor& t = program_.tensor(id);
    own_[id] = t.role == kInput || t.role == kInputOutput || t.role == kConstant;
    if (t.space == isa::Space::kHbm || program_.virtual_addresses()) return own_[id];
    own_[id] = own_[id] || std::any_of(on_chip_.begin(), on_chip_.end(), [&](std::uint32_t other) {
                 return share(t, program_.tensor(other));
               });
    return own_[id];
  }

  static bool share(const isa::Tensor& a, const isa::Tensor& b) {
    return a.space == b.space && a.core == b.core && a.address < b.address + b.extent_bytes() &&
           b.address < a.address + a.extent_bytes() && a.partition < b.partition + b.shape.at(0) &&
           b.partition < a.partition + a.shape.at(0);
  }

  static bool opens_loop(const isa::Inst& inst) {
    using Control = isa::OpSpec::Control;
    const Control control = isa::spec(inst).control;
    return control == Control::kLoopBegin || control == Control::kWhileBegin;
  }

  std::size_t end_of_loop(std::size_t i) const {
    using Control = isa::OpSpec::Control;
    int open = 1;
    for (++i; i < program_.insts().size() && open > 0; ++i) {
      const Control control = isa::spec(program_.insts()[i]).control;
      if (opens_loop(program_.insts()[i])) ++open;
      if (control == Control::kLoopEnd || control == Control::kWhileEnd) --open;
    }
    return i;
  }

  void note_writes(const isa::Inst& inst) {
    if (isa::spec(inst).eval == nullptr && isa::spec(inst).combine == nullptr) return;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (!write || wrote_[ref.tensor]) return;
      own_[ref.tensor] = wrote_[ref.tensor] = true;
      if (ref.on_chip()) on_chip_.push_back(ref.tensor);
    });
  }

  const isa::Program& program_;
  const isa::SemaphoreNames& names_;
  std::unordered_map<std::uint32_t, Reach> reach_;
  std::vector<bool> own_;               // tensors known to hold something
  std::vector<bool> wrote_;             // of which themselves
  std::vector<bool> said_;              // those complained about
  std::vector<std::uint32_t> on_chip_;  // those written themselves
  std::size_t noted_ = 0;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> static_remarks(const isa::Program& program, const isa::SemaphoreNames& names) {
  return Statics(program, names).run();
}

namespace {

void note_registers(const isa::Inst& inst, isa::CoreState& state) {
  const isa::OpSpec& op = isa::spec(inst);
  const bool sets =
      op.on_sequencer || op.loads_register || op.control == isa::OpSpec::Control::kLoopBegin;
  if (!sets || inst.args.empty() || inst.arg(0).kind != isa::Arg::Kind::kRegister) return;
  if (op.on_sequencer && op.params.size() > 1 && !inst.has(1)) return;  // of no value yet
  state.set_reg(inst.arg(0).integer, 0);
}

void check_state(const isa::Program& program, int core) {
  using Control = isa::OpSpec::Control;
  isa::CoreState state;
  std::vector<bool> certain = {true};  // of the open blocks
  for (const isa::Inst& inst : program.insts()) {
    if (inst.core != core) continue;
    const Control control = isa::spec(inst).control;
    try {
      if (certain.back()) isa::check_registers(inst, state);
      if (certain.back() || isa::reducing(inst) == isa::Reducing::kBegins) {
        isa::check_reducing(inst, state);
      }
    } catch (isa::Error& e) {
      e.at(isa::spec(inst).name, inst.loc);
      program.locate(e);
      throw;
    }
    note_registers(inst, state);
    if (control == Control::kLoopBegin || control == Control::kWhileBegin) {
      const std::int64_t least = trips(inst);
      certain.push_back(certain.back() && least > 0 && least < kEndless);
    } else if (control == Control::kIfBegin) {
      certain.push_back(false);
    } else if (control == Control::kLoopEnd || control == Control::kWhileEnd ||
               control == Control::kIfEnd) {
      certain.pop_back();
    }
  }
}

}  // namespace

void check_state(const isa::Program& program) {
  for (int core = 0; core < program.cores(); ++core) {
    check_state(program, core);
  }
}

namespace {

// Tensors in HBM whose addresses in the trace overlap: here each has bytes of its own.
std::vector<Remark> sharing_remarks(const isa::Program& program) {
  std::vector<const isa::Inst*> writer(program.tensors().size(), nullptr);
  std::vector<std::uint32_t> placed;
  for (const isa::Inst& inst : program.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      const isa::Tensor& t = program.tensor(ref);
      if (write && t.space == isa::Space::kHbm && writer[ref.tensor] == nullptr) {
        writer[ref.tensor] = &inst;
      }
    });
  }
  const auto& tensors = program.tensors();
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].space == isa::Space::kHbm && tensors[i].address != 0) placed.push_back(i);
  }
  std::sort(placed.begin(), placed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].address < tensors[b].address;
  });
  std::vector<Remark> remarks;
  for (std::size_t i = 1; i < placed.size() && remarks.size() < kMostRemarks; ++i) {
    const std::uint32_t a = placed[i - 1], b = placed[i];
    const isa::Inst* inst = writer[a] != nullptr ? writer[a] : writer[b];
    if (inst == nullptr || tensors[a].address + tensors[a].extent_bytes() <= tensors[b].address) {
      continue;
    }
    remarks.push_back({inst, isa::Rule::hbm_tensors_overlap,
                       "writes " + tensors[writer[a] != nullptr ? a : b].name +
                           ", whose address in HBM overlaps that of " +
                           tensors[writer[a] != nullptr ? b : a].name +
                           "; each has bytes of its own here"});
  }
  return remarks;
}

// A message from a core to itself reaches no other core: the kernel confuses two ranks.
std::vector<Remark> sending_remarks(const isa::Program& program) {
  std::vector<Remark> remarks;
  if (program.cores() < 2) return remarks;
  for (const isa::Inst& inst : program.insts()) {
    if (isa::spec(inst).send == nullptr || remarks.size() >= kMostRemarks) continue;
    for (const std::string_view param : {"send_to_rank", "recv_from_rank"}) {
      if (inst.integer(isa::param_index(isa::spec(inst), param)) != inst.core) continue;
      remarks.push_back(
          {&inst, isa::Rule::sends_to_itself,
           std::string(param) + " is " + std::to_string(inst.core) + ", the core itself"});
    }
  }
  return remarks;
}

}  // namespace

std::vector<Remark> lost_remarks(const isa::Program& program, bool unread) {
  if (program.timing_only()) return {};  // of a profile's operands only the addresses are known
  std::vector<Remark> remarks = unread_remarks(program, unread);
  if (unread) {
    for (Remark& r : input_remarks(program)) remarks.push_back(std::move(r));
    for (Remark& r : load_remarks(program)) remarks.push_back(std::move(r));
  } else {
    for (Remark& r : step_remarks(program)) remarks.push_back(std::move(r));
  }
  return remarks;
}

std::vector<Remark> written_remarks(const isa::Program& program) {
  if (program.timing_only()) return {};
  std::vector<Remark> remarks = inplace_remarks(program);
  for (Remark& r : sharing_remarks(program)) remarks.push_back(std::move(r));
  for (Remark& r : sending_remarks(program)) remarks.push_back(std::move(r));
  return remarks;
}

std::vector<isa::Error> located(const isa::Program& program, const std::vector<Remark>& remarks) {
  std::vector<isa::Error> errors;
  for (const Remark& r : remarks) {
    errors.emplace_back(r.rule, r.text);
    errors.back().at(isa::spec(*r.inst).name, r.inst->loc);
    program.locate(errors.back());
  }
  return errors;
}

std::vector<isa::Error> warnings(const std::vector<isa::Error>& found,
                                 const isa::RulePolicy& policy) {
  std::vector<isa::Error> list;
  for (const isa::Error& e : found) {
    const isa::Level level = policy.of(e.rule());
    if (level == isa::Level::kError) throw e;
    if (level == isa::Level::kWarning) list.push_back(e);
  }
  return list;
}

}  // namespace nkisim::checks
