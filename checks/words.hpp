// Formats pieces of text that several checks use, such as the location of an instruction.
#pragma once

#include <string>
#include <utility>

#include "isa/program/disasm.hpp"

namespace nkisim::checks {

/// "S[5] (Tensor) >= 2".
[[nodiscard]] std::string condition_text(const isa::SemaphoreWait& wait,
                                         const isa::SemaphoreNames& names);

/// "nc_matmul at k.py:12", or "nc_matmul at line 7" of the trace.
[[nodiscard]] std::string place_text(const isa::Program& program, const isa::Inst& inst);

/// "x[3, 0]": an element of a tensor, counted in row-major order.
[[nodiscard]] std::string element_text(const isa::Tensor& tensor, std::int64_t element);

/// The place where an instruction is written: of the kernel if that is known, else of the trace.
using Line = std::pair<std::uint32_t, std::uint32_t>;
[[nodiscard]] inline Line line_of(const isa::Inst& inst) {
  const isa::SourceLoc& at = inst.loc;
  return {at.kernel_file, at.kernel_line != 0 ? at.kernel_line : at.trace_line};
}

}  // namespace nkisim::checks
