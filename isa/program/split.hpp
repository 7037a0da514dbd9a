// Checks collectives that a kernel splits into two instructions (NKI 0.7), a prepare and a trigger.
// Each prepare must have its trigger.
#pragma once

#include "isa/program/program.hpp"

namespace nkisim::isa {

/// Throws Error unless on every core each prepare is followed by exactly one trigger of its kind,
/// group and metadata, with neither another prepare nor a write of the metadata between them, in
/// whatever way loops and branches go.
void check_splits(const Program& program);

}  // namespace nkisim::isa
