// Which earlier instructions of a block an instruction must follow, whatever orders the block.
#pragma once

#include <span>

#include "compiler/analysis/hazards.hpp"

namespace nkisim::compiler {

/// Nothing passes it, and it stays where it is: control flow, rendezvous, register writes.
[[nodiscard]] bool is_barrier(const isa::Inst& inst);

/// Hazards of memory, and the order of instructions that use what their engine remembers besides.
class Precedence {
 public:
  /// `placed` as for Hazards.
  Precedence(const isa::Program& program, const std::vector<bool>& placed)
      : hazards_(program, placed) {}
  /// As Hazards::add; the edges stay valid until the next call.
  template <typename Done>
  [[nodiscard]] std::span<const Hazards::Edge> add(const isa::Inst& inst, std::uint32_t number,
                                                   Done&& done) {
    hazards_.add(inst, number, edges_, done);
    add_state(inst, number);
    return edges_;
  }

 private:
  void add_state(const isa::Inst& inst, std::uint32_t number);
  Hazards hazards_;
  std::vector<Hazards::Edge> edges_;
  std::int64_t last_stateful_ = -1;
};

}  // namespace nkisim::compiler
