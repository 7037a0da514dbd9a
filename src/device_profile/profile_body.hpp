// Finds the kernel's instructions in a device profile, and the order in which they ran.
#pragma once

#include <vector>

#include "src/device_profile/hw_profile.hpp"
#include "src/device_profile/profile_operands.hpp"

namespace nkisim {

/// A kept instruction with its parsed operands.
struct BodyInstruction {
  const HwInstruction* inst = nullptr;
  ProfileOperands operands;
  bool dma = false;  // triggers a DMA
};

struct ProfileBody {
  std::vector<BodyInstruction> instructions;  // per engine in program order, merged by time
  double start = 0;                           // of the first kernel instruction
  std::size_t left_out = 0;                   // instructions of the runtime
};

/// The kernel's instructions: those the compiler made (compiler_pc), ordering modes left out. If no
/// instruction shows, all but the runtime's own opcodes. `everything` keeps all.
[[nodiscard]] ProfileBody select_body(const HwProfile& profile, bool everything);

/// True for opcodes that move or compute data, as opposed to control and synchronisation.
[[nodiscard]] bool is_data_path(std::string_view opcode);

/// Packets that carry the kernel's data: no instruction fetch, no collectives, no semaphore writes.
[[nodiscard]] bool is_payload(const HwPacket& packet);
inline constexpr std::int64_t kSemaphorePacketBytes = 4;

}  // namespace nkisim
