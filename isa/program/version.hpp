// Declares ProgramVersion: what passes may change of a program, packed, to come back to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/base/inst.hpp"

namespace nkisim::isa {

/// The instructions of a program and the places of its tensors at one time, without their targets:
/// 32 bytes per instruction and 16 per tensor. It is of use to the program that made it alone.
class ProgramVersion {
 public:
  /// Takes the lines of a trace from the instructions, as if a kernel had been recorded.
  void forget_trace_lines() {
    for (PackedInst& inst : insts_) inst.loc.trace_line = 0;
  }

 private:
  friend class Program;
  struct PackedInst {
    const Arg* args = nullptr;
    SourceLoc loc;
    std::uint32_t ordering = 0;
    Op op = Op{};
    Engine engine = Engine::kAny;
    std::uint8_t core = 0;
    std::uint8_t args_count = 0;
    bool engine_open : 1 = false;
    bool forward : 1 = false;
    bool registers : 1 = false;
  };
  static_assert(sizeof(PackedInst) <= 32);
  // Most instructions lack these, or share them with the one before.
  struct Run {
    std::uint32_t first = 0;  // the instruction it begins with
    const Sync* sync = nullptr;
    const DmaPlan* dma = nullptr;
    const std::string* label = nullptr;
    const std::string* region = nullptr;
    [[nodiscard]] bool same(const Inst& inst) const {
      return sync == inst.sync && dma == inst.dma && label == inst.label && region == inst.region;
    }
  };
  struct Place {  // of a tensor
    std::int64_t address = 0;
    std::uint16_t partition = 0;
    TensorRole role = TensorRole::kInternal;
    bool written = false, fixed = false;
  };
  void pack(const Inst& inst);
  [[nodiscard]] Inst unpacked(std::size_t i, std::size_t& run) const;

  std::vector<PackedInst> insts_;
  std::vector<Run> runs_;        // ascending
  std::vector<Place> places_;    // of the tensors that all versions have
  std::vector<Tensor> further_;  // the others
  std::vector<std::array<std::uint32_t, kEngineCount + 1>> uses_;
  std::vector<std::size_t> control_flow_;
  bool virtual_addresses_ = false;
};

}  // namespace nkisim::isa
