// Checks matmul accumulation groups in PSUM: one matmul overwrites, the following ones add to it.
#pragma once

#include <vector>

#include "checks/statics.hpp"

namespace nkisim::checks {

/// Warnings, in program order with the bodies of loops taken once: what is read between two matmuls
/// of a group is a part of the sum; and a bank of PSUM holds one open group
/// [trainium_inferentia2_arch: eight banks, up to eight outstanding groups]. `placed`: the
/// addresses are the program's own, not ones that were found for it (Tensor::fixed ones always
/// are); otherwise only groups of one tensor can meet in a bank. Operands with run-time addresses
/// are left out. Each pair of lines is named once.
[[nodiscard]] std::vector<Remark> group_remarks(const isa::Program& program, bool placed);

}  // namespace nkisim::checks
