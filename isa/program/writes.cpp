// Decides if an instruction leaves parts of its outputs as they were, and which register it sets.

#include "isa/program/writes.hpp"

#include <algorithm>

#include "isa/program/world.hpp"

namespace nkisim::isa {
namespace {

bool is_set(const Inst& inst, std::string_view name) {
  const int i = param_index(spec(inst), name);
  return i >= 0 && inst.integer(i) != 0;
}

}  // namespace

bool adds(const Inst& inst) { return is_set(inst, "accumulate"); }

bool leaves_parts(const Program& program, const Inst& inst, const Param& output) {
  return output.kind == ParamKind::kInOut || is_set(inst, "oob_mode") || may_keep(program, inst);
}

bool outputs_count_apart(const OpSpec& op) {
  return std::any_of(op.params.begin(), op.params.end(),
                     [](const Param& p) { return p.mx_scale && is_written(p.kind); });
}

std::int64_t written_register(const Inst& inst) {
  const OpSpec& op = spec(inst);
  const bool writes =
      op.on_sequencer || op.loads_register || op.control == OpSpec::Control::kLoopBegin;
  if (!writes || inst.args.empty() || inst.arg(0).kind != Arg::Kind::kRegister) return -1;
  return inst.arg(0).integer;
}

}  // namespace nkisim::isa
