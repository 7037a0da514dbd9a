// Formats instructions as text in the operand syntax of neuron-profile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::isa {

/// Names of semaphores, shown after their number: S[5] (Tensor)>=1.
using SemaphoreNames = std::map<std::uint16_t, std::string>;

/// `bfloat16@0x8880[1,0,0][416,1,1]`: dtype, address, steps and sizes innermost first. On-chip
/// addresses are flat: partition p starts at p * 0x40000, PSUM at 0x2000000.
[[nodiscard]] std::string disasm_operand(const Program& program, const TensorRef& ref);

/// One line for the whole op: opcode, semaphores, operands and attributes from its OpSpec.
[[nodiscard]] std::string disasm(const Program& program, const Inst& inst,
                                 const SemaphoreNames& names = {});

/// One line per ISA-level part (LDWEIGHTS and MATMUL of one nc_matmul), each with its own operands;
/// the first waits, the last posts.
[[nodiscard]] std::vector<std::string> disasm_parts(const Program& program, const Inst& inst,
                                                    const SemaphoreNames& names = {});

}  // namespace nkisim::isa
