// The compiler's part, as methods of the recorded program.
#pragma once

#include "python/binding/recorder.hpp"

namespace nkisim::python {

/// Adds assign_queues, forward_copies, drop_clears, reuse_results, rename_tiles, schedule, delay,
/// unschedule, partition_groups and move_partitions.
void bind_compile(py::class_<Recorder>& program);

}  // namespace nkisim::python
