// Finds SBUF tensors of at most 64 partitions that could start at partition 32, 64 or 96. Two of
// them can then lie next to each other at the same addresses.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Groups of SBUF tensors without a final address (`placed` false) of at most 64 partitions, which
/// are first returned to partition 0, that may start at another legal partition if the whole group
/// does, as far as every instruction that uses them is concerned. By tensor: the group's number, or
/// -1 if it must stay. What VectorE, ScalarE or GpSimd read in one instruction starts together.
/// Tensors that TensorE uses, that are indexed dynamically or named in lists stay.
[[nodiscard]] std::vector<std::int32_t> partition_groups(isa::Program& program,
                                                         const std::vector<bool>& placed);

/// Lets tensors (by id) start at the given partitions, their uses with them. False if an
/// instruction cannot take that: the program is then unchanged.
bool move_partitions(isa::Program& program,
                     const std::vector<std::pair<std::uint32_t, std::uint16_t>>& starts);

}  // namespace nkisim::compiler
