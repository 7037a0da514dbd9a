// Finds all earlier instructions that an instruction must follow, for passes that reorder.
#pragma once

#include <span>
#include <unordered_map>

#include "compiler/analysis/hazards.hpp"

namespace nkisim::compiler {

/// Nothing passes it, and it stays where it is: control flow, rendezvous, register writes.
[[nodiscard]] bool is_barrier(const isa::Inst& inst);

/// Hazards of memory, the order of instructions that use what their engine remembers otherwise, and
/// the order that the kernel asks for.
class Precedence {
 public:
  /// `uses` and `placed` as for Hazards.
  Precedence(const isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed)
      : program_(program), hazards_(program, uses, placed) {}
  /// Begins another block.
  void restart();
  /// As Hazards::add; the edges stay valid until the next call.
  template <typename Done>
  [[nodiscard]] std::span<const Hazards::Edge> add(std::size_t i, std::uint32_t number,
                                                   Done&& done) {
    hazards_.add(i, number, edges_, done);
    const isa::Inst& inst = program_.insts()[i];
    add_state(inst, number);
    if (inst.ordering != 0) add_ordering(inst, number);
    return edges_;
  }

 private:
  void add_state(const isa::Inst& inst, std::uint32_t number);
  void add_ordering(const isa::Inst& inst, std::uint32_t number);
  const isa::Program& program_;
  Hazards hazards_;
  std::unordered_map<std::uint64_t, std::uint32_t> ids_;  // core and id to the number
  std::vector<Hazards::Edge> edges_;
  std::int64_t last_stateful_ = -1;
};

}  // namespace nkisim::compiler
