// Limits the memory of this process, so that a run fails with an error before it exhausts the
// machine.
#pragma once

#include <string>

namespace nkisim::isa::host {

/// While one exists, this process takes at most 80 % of the memory that it may have (memory_bytes;
/// $NKISIM_MEMORY_PERCENT): a thread looks at what it has, and beyond that the system gives no more
/// (std::bad_alloc). Several may exist at once. Where the system does not say what a
/// process has, nothing is bounded.
class MemoryBound {
 public:
  MemoryBound();
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
  /// "more than 19.1 GB, which is 80 % of the memory that this machine or control group has" if
  /// that was reached since this was made, else "".
  [[nodiscard]] std::string reached() const;

 private:
  void* state_;
  int before_ = 0;  // times that it was reached before
};

/// True while this process has as much as it may, so that what grows should end. What asks it for
/// each thing that it adds ends at the bound however busy the machine is.
[[nodiscard]] bool memory_bound_reached();
/// From here on nothing is bounded in this process and its children, which others bound.
void without_memory_bounds();

}  // namespace nkisim::isa::host
