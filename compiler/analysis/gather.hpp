// Groups of instructions that become one each: the order of a program in which they can.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// The dependences of a program of one core without control flow.
class Gather {
 public:
  using Groups = std::vector<std::vector<std::uint32_t>>;  // instructions, ascending

  /// `placed` as for Hazards.
  Gather(const isa::Program& program, const std::vector<bool>& placed);
  /// Whether instruction `to` must wait for the earlier `from`, by itself or through others.
  [[nodiscard]] bool reaches(std::uint32_t from, std::uint32_t to) const;
  /// Numbers of the other instructions and (from the instructions' number on) of the groups, in the
  /// order in which each goes as soon as all that it waits for is done, the oldest first. Nothing
  /// if groups wait for one another.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> order(const Groups& groups) const;

 private:
  std::vector<std::vector<std::uint32_t>> followers_;  // by instruction
  std::vector<std::uint32_t> needs_;                   // by instruction: how many it follows
};

/// Puts a program into that order: the groups' new instructions are the last of the program, in
/// their groups' order, and the groups' own go. Returns how many instructions fewer there are.
std::size_t put_groups(isa::Program& program, std::vector<std::uint32_t> order,
                       const Gather::Groups& groups);

}  // namespace nkisim::compiler
