// Describes small programs with explicit semaphores, for comparing the race check with all
// interleavings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/base/inst.hpp"

namespace nkisim::test {

/// Memory is this many cells; an operation reads and writes ranges of them.
inline constexpr int kCells = 6;
inline constexpr int kShares = 16;  // of a transfer's increment, one per DMA engine

struct CellRange {
  int first = 0, count = 0;
  [[nodiscard]] bool overlaps(const CellRange& o) const {
    return count > 0 && o.count > 0 && first < o.first + o.count && o.first < first + count;
  }
};

/// One instruction: a copy on an engine, or a DMA that the engine triggers.
struct SmallOp {
  isa::Engine engine = isa::Engine::kVector;
  bool dma = false;
  CellRange dst, src;  // src.count == 0: a constant is written
  std::vector<isa::SemaphoreWait> waits;
  std::vector<isa::SemaphorePost> posts;
  [[nodiscard]] bool conflicts(const SmallOp& o) const {
    return dst.overlaps(o.dst) || dst.overlaps(o.src) || src.overlaps(o.dst);
  }
};
using SmallProgram = std::vector<SmallOp>;

/// For messages.
inline std::string text(const SmallProgram& program) {
  constexpr const char* kCompare[] = {">=", "==", "<=", ">", "<"};
  constexpr const char* kAction[] = {"++", "--", "+=", "-=", "="};
  std::string out;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const SmallOp& op = program[i];
    out += std::to_string(i) + ": " + std::string(isa::name(op.engine)) + (op.dma ? " dma" : "");
    const auto range = [](const CellRange& r) {
      return "[" + std::to_string(r.first) + ":" + std::to_string(r.first + r.count) + "]";
    };
    out += " " + range(op.dst) + " <- " + (op.src.count > 0 ? range(op.src) : "constant");
    for (const auto& w : op.waits) {
      out += " wait S" + std::to_string(w.semaphore) + kCompare[static_cast<int>(w.compare)] +
             std::to_string(w.value);
    }
    for (const auto& p : op.posts) {
      out += " post S" + std::to_string(p.semaphore) + kAction[static_cast<int>(p.action)] +
             std::to_string(p.value) + (p.at_issue ? "@issue" : "");
    }
    out += "\n";
  }
  return out;
}

}  // namespace nkisim::test
