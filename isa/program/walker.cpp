// Follows the loops and branches of a program, and computes register values on the way.

#include "isa/program/walker.hpp"

#include "isa/program/writes.hpp"

namespace nkisim::isa {
namespace {

using Control = OpSpec::Control;

bool compares(std::int64_t how, std::int64_t a, std::int64_t b) {
  switch (how) {  // the choices of if_begin's `compare`, in their order
    case 0:
      return a < b;
    case 1:
      return a <= b;
    case 2:
      return a == b;
    case 3:
      return a != b;
    case 4:
      return a >= b;
    default:
      return a > b;
  }
}

// A sequencer compares 32 bits.
std::int64_t compared(std::string_view what, std::int64_t value) {
  if (value == static_cast<std::int32_t>(value)) return value;
  fail(Rule::integer_range, what, std::to_string(value),
       "an integer of 32 bits (sequencers do not compare 64)");
}

std::int64_t value_of(const Arg& arg, const CoreState& state) {
  if (arg.kind != Arg::Kind::kRegister) return arg.integer;
  return compared("register " + std::to_string(arg.integer), state.reg(arg.integer));
}

}  // namespace

Walker::Walker(const Program& program, int core, CoreState& state, bool checks_offsets)
    : program_(program), core_(core), state_(state), checks_offsets_(checks_offsets) {
  find_blocks();
}

// Pairs the begins and ends of blocks, as far as the program goes by now.
void Walker::find_blocks() {
  const auto& control = program_.control_flow();
  for (; scanned_ < control.size(); ++scanned_) {
    const std::size_t i = control[scanned_];
    const Inst& inst = program_.insts()[i];
    if (inst.core != core_) continue;
    const Control c = spec(inst).control;
    if (c == Control::kLoopBegin || c == Control::kWhileBegin || c == Control::kIfBegin) {
      open_.push_back(i);
    } else if (c == Control::kElseBegin) {
      match_[open_.back()] = i;  // if -> else
      open_.back() = i;          // else -> end
    } else {
      match_[open_.back()] = i;
      match_[i] = open_.back();
      open_.pop_back();
    }
  }
}

std::size_t Walker::match(std::size_t control) {
  if (scanned_ < program_.control_flow().size()) find_blocks();
  return match_.at(control);
}

// Fails if a while loop, whose body has run, goes on for ever: no instruction of the body writes
// its register.
void Walker::check_ends(std::size_t begin, std::size_t end) const {
  const auto& insts = program_.insts();
  const std::int64_t reg = insts[begin].arg(0).integer, value = state_.reg(reg);
  if (value == 0) return;
  for (std::size_t i = end; --i > begin;) {
    if (insts[i].core == core_ && written_register(insts[i]) == reg) return;
  }
  fail(Rule::dynamic_loop, "the loop never ends: no instruction of its body writes register " +
                               std::to_string(reg) + ", which is " + std::to_string(value));
}

// Index to continue at after the control instruction at i.
std::size_t Walker::after_control(std::size_t i) {
  const Inst& inst = program_.insts()[i];
  const Control c = spec(inst).control;
  if (c == Control::kLoopBegin) {
    const std::int64_t start = value_of(inst.arg(1), state_);
    const std::int64_t stop = value_of(inst.arg(2), state_);
    state_.set_reg(inst.arg(0).integer, start);
    if (start >= stop) return match(i) + 1;
    loops_.push_back({i, stop});
    return i + 1;
  }
  if (c == Control::kLoopEnd) {
    const Inst& begin = program_.insts()[match(i)];
    const std::int64_t reg = begin.arg(0).integer;
    const std::int64_t next = state_.reg(reg) + begin.integer(3, 1);
    state_.set_reg(reg, compared("the loop's register", next));
    if (next < loops_.back().stop) return loops_.back().begin + 1;
    loops_.pop_back();
    return i + 1;
  }
  if (c == Control::kWhileBegin) {
    return state_.reg(inst.arg(0).integer) != 0 ? i + 1 : match(i) + 1;
  }
  if (c == Control::kWhileEnd) {
    check_ends(match(i), i);
    return match(i);
  }
  if (c == Control::kIfBegin) {
    const bool taken =
        compares(inst.integer(1), value_of(inst.arg(0), state_), value_of(inst.arg(2), state_));
    return taken ? i + 1 : match(i) + 1;
  }
  if (c == Control::kElseBegin) return match(i) + 1;  // reached only at the end of a taken branch
  return i + 1;
}

template <typename Fn>
auto Walker::locating(const Inst& inst, Fn&& fn) const {
  try {
    return fn();
  } catch (Error& e) {
    e.at(spec(inst).name, inst.loc);
    program_.locate(e);
    throw;
  }
}

// The registers have their values here, also in a run without values.
void Walker::check(const Inst& inst) {
  if (state_.checks_registers) {
    if (inst.registers) check_registers(inst, state_);
    check_reducing(inst, state_);
  }
  if (inst.registers && checks_offsets_) check_offsets(inst, program_, state_);
}

std::optional<Step> Walker::next() {
  const auto& insts = program_.insts();
  while (at_ < insts.size() && insts[at_].core != core_) ++at_;
  if (at_ >= insts.size()) return std::nullopt;
  const Inst& inst = insts[at_];
  const OpSpec& op = spec(inst);
  if (inst.registers || op.state != OpSpec::State::kNone) locating(inst, [&] { check(inst); });
  must_execute_ = op.loads_register || op.on_sequencer;
  at_ = op.control == Control::kNone ? at_ + 1 : locating(inst, [&] { return after_control(at_); });
  return Step{&inst, sequence_++};
}

}  // namespace nkisim::isa
