// Decides if an instruction leaves parts of its outputs as they were.

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

}  // namespace nkisim::isa
