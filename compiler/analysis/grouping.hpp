// Shared code of the compiler passes that replace several instructions (a group) by one.
//
// They find groups, put the tiles of a group side by side in one larger tile, and order the program
// so that each new instruction comes after all that it depends on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/analysis/tile_moves.hpp"
#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// The dependences of a program of one core without control flow, and the order that keeps them
/// when each group becomes one instruction.
class Gather {
 public:
  using Groups = std::vector<std::vector<std::uint32_t>>;  // instructions, ascending

  /// `placed` as for Hazards.
  Gather(const isa::Program& program, const std::vector<bool>& placed);
  /// True if instruction `to` must wait for the earlier `from`, directly or through others.
  [[nodiscard]] bool reaches(std::uint32_t from, std::uint32_t to) const;
  /// Numbers of the other instructions and (from the instructions' number on) of the groups, in the
  /// order in which each goes as soon as all that it waits for is done, the oldest first. Nothing
  /// if groups wait for one another.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> order(const Groups& groups) const;

 private:
  std::vector<std::vector<std::uint32_t>> followers_;  // by instruction
  std::vector<std::uint32_t> needs_;                   // by instruction: how many it follows
};

/// Base of the passes that make one instruction of several. A pass finds the instructions that may
/// go together (sites_of, groups_of). For each group it names the tiles that lie side by side from
/// then on and the instruction that does the group's work. Then it finishes.
class Grouping {
 public:
  using Numbers = std::vector<std::uint32_t>;  // of instructions, ascending
  /// An instruction that does a group's work, made once the tiles have moved.
  struct Made {
    isa::Inst inst;
    std::vector<isa::Arg> args;
  };
  using Make = std::function<Made()>;

  /// `uses`: those of the program as it is. `placed` as for Hazards.
  Grouping(isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed)
      : program_(program), placed_(placed), moves_(program, uses) {}

  [[nodiscard]] TileMoves& moves() { return moves_; }
  [[nodiscard]] const TileMoves& moves() const { return moves_; }
  /// Lets the tiles lie one behind the other in a new tile, `all` of which the caller describes.
  std::uint32_t side_by_side(const Numbers& tiles, isa::Tensor all);
  void add(Numbers group, Make make);
  [[nodiscard]] bool empty() const { return groups_.empty(); }

  /// Looks for the dependences that waits() and finish_when_ready() go by.
  void find_dependences() { gather_.emplace(program_, placed_); }
  /// True if instruction `later` must wait for an instruction of a group.
  template <typename Member>
  [[nodiscard]] bool waits(const std::vector<Member>& group, std::uint32_t later) const {
    return std::any_of(group.begin(), group.end(),
                       [&](const Member& m) { return gather_->reaches(m.inst, later); });
  }

  /// Changes the program: each group's instruction goes where the last of it was. Returns how many
  /// instructions fewer there are.
  std::size_t finish_at_last();
  /// The same, but each goes as soon as all is there that it needs. Nothing, and the program is as
  /// it was but for new tensors, if groups wait for one another.
  std::optional<std::size_t> finish_when_ready();

 private:
  std::size_t finish(Numbers order);

  isa::Program& program_;
  const std::vector<bool>& placed_;
  TileMoves moves_;
  std::optional<Gather> gather_;
  Gather::Groups groups_;
  std::vector<Make> make_;
};

/// Lists the instructions that may become one, by the place that they come from (a site).
/// member(i) gives the place of instruction i and a Member that describes it (its number is
/// `inst`), or nothing. Places with one instruction are left out; the others come in the order of
/// their first instructions.
template <typename Place, typename Member, typename Fn>
std::vector<std::vector<Member>> sites_of(const isa::Program& program, Fn&& member) {
  std::map<Place, std::vector<Member>> sites;
  for (std::uint32_t i = 0; i < program.insts().size(); ++i) {
    std::optional<std::pair<Place, Member>> found = member(i);
    if (found) sites[found->first].push_back(std::move(found->second));
  }
  std::vector<std::vector<Member>> all;
  for (auto& [place, members] : sites) {
    if (members.size() > 1) all.push_back(std::move(members));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a[0].inst < b[0].inst; });
  return all;
}

/// Cuts a site into groups of at least two that follow each other: add(group) is called for each;
/// continues(group, member): whether it can go with these.
template <typename Member, typename Continues, typename Add>
void groups_of(const std::vector<Member>& site, Continues&& continues, Add&& add) {
  std::vector<Member> group;
  const auto close = [&] {
    if (group.size() > 1) add(group);
    group.clear();
  };
  for (const Member& member : site) {
    if (!group.empty() && !continues(group, member)) close();
    group.push_back(member);
  }
  close();
}

/// Numbers of a group's instructions.
template <typename Member>
Grouping::Numbers numbers_of(const std::vector<Member>& group) {
  Grouping::Numbers numbers;
  for (const Member& m : group) numbers.push_back(m.inst);
  return numbers;
}

/// Lets `group` change a program of one core whose tiles fit, and takes that back if they no longer
/// do. It returns how many instructions it saved, or nothing if there is no order.
PassResult group_if_it_fits(Unit& unit, const std::function<std::optional<std::size_t>()>& group);

}  // namespace nkisim::compiler
