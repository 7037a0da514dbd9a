// Implements blocks.hpp: opens and closes loops and branches as instructions come.

#include "isa/program/blocks.hpp"

#include <string>

#include "isa/program/writes.hpp"

namespace nkisim::isa {
namespace {

using Control = OpSpec::Control;

// The op that ends a block; kNone for ops that open none.
Control closer_of(Control opener) {
  switch (opener) {
    case Control::kLoopBegin:
      return Control::kLoopEnd;
    case Control::kWhileBegin:
      return Control::kWhileEnd;
    case Control::kIfBegin:
      return Control::kIfEnd;
    default:
      return Control::kNone;
  }
}

bool is_closer(Control c) {
  return c == Control::kLoopEnd || c == Control::kWhileEnd || c == Control::kIfEnd;
}

}  // namespace

// The register of an open loop is the loop's own (documented for nl.dynamic_range since NKI 0.4).
void Blocks::check_loop_registers(const OpSpec& op, const Inst& inst) const {
  const auto c = static_cast<std::size_t>(inst.core);
  const std::int64_t written = written_register(inst);
  if (written < 0 || c >= open_.size()) return;
  for (const Block& block : open_[c]) {
    if (block.loop_register != written) continue;
    fail(Rule::loop_register_written, op.params.front().name,
         "register " + std::to_string(block.loop_register) + ", which counts a loop that is open",
         "a register of its own");
  }
}

void Blocks::track(const OpSpec& op, const Inst& inst) {
  check_loop_registers(op, inst);
  if (op.control == Control::kNone) return;
  const auto c = static_cast<std::size_t>(inst.core);
  if (c >= open_.size()) open_.resize(c + 1);
  std::vector<Block>& open = open_[c];
  if (closer_of(op.control) != Control::kNone) {
    open.push_back({&op, op.control == Control::kLoopBegin ? inst.arg(0).integer : -1});
    return;
  }
  const Control wanted = open.empty() ? Control::kNone : closer_of(open.back().op->control);
  const bool match = is_closer(op.control) ? wanted == op.control : wanted == Control::kIfEnd;
  if (!match) {
    fail(Rule::block_structure,
         std::string(op.name) + " closes no open block" +
             (open.empty() ? ""
                           : "; the innermost open one is " + std::string(open.back().op->name)));
  }
  if (is_closer(op.control)) open.pop_back();
}

const OpSpec* Blocks::open() const {
  for (const auto& open : open_) {
    if (!open.empty()) return open.back().op;
  }
  return nullptr;
}

}  // namespace nkisim::isa
