// Loads activation tables on the Scalar Engine before a function that needs them.
#include "models/engines/scalar_engine.hpp"

#include <algorithm>

namespace nkisim::models {

void ScalarEngine::prepare(const Operation& op, const isa::Part& part) {
  if (part.act_table == 0 || part.act_table == loaded_) return;
  if (cost_.rule == nullptr) cost_ = price(load_);
  const Wait wait{.ready = ready_, .pipe_free = pipe_free_};
  const Fs start = std::max(ready_, pipe_free_);
  pipe_free_ = start + cost_.interval;
  handed_ = ready_ = start + config_.issue;
  loaded_ = part.act_table;
  announce(op, load_, cost_, wait, start, start + cost_.duration);
}

}  // namespace nkisim::models
