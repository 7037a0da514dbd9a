// Computes numbers in copies of this process, one for each processor that it may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace nkisim::isa::host {

struct CopyWork {
  std::size_t count = 0;
  /// The number of work `i`. What it changes in memory is lost with the copy.
  std::function<std::int64_t(std::size_t)> compute;
  /// Gets each number in this process, in any order.
  std::function<void(std::size_t i, std::int64_t number)> done;
  /// Asked now and then; false ends all copies.
  std::function<bool()> go_on;
};

/// Shares the work among at most `copies` processes, which this one waits for. What a copy could
/// not compute is never done: it threw or was killed, or the system has no copies to give. For
/// work that needs no other thread of this process.
void compute_in_copies(const CopyWork& work, std::size_t copies);

/// The number of copies that can compute at once: one for each processor, while each may take as
/// much memory as this process has.
[[nodiscard]] std::size_t copies_at_once();

}  // namespace nkisim::isa::host
