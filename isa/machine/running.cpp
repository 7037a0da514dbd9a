// Reports the rules that the running instruction breaks.
#include "isa/machine/running.hpp"

#include <algorithm>

#include "isa/program/check.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

void Running::report(Level level, Rule rule, const std::string& message) {
  if (level == Level::kError) fail(rule, message);
  if (level == Level::kOff || !warn_ || inst_ == nullptr) return;
  const std::pair<const Inst*, Rule> now(inst_, rule);
  if (std::find(warned_.begin(), warned_.end(), now) != warned_.end()) return;
  warned_.push_back(now);
  Error warning(rule, message);
  warning.at(spec(*inst_).name, inst_->loc);
  program_.locate(warning);
  warn_(warning);
}

}  // namespace nkisim::isa
