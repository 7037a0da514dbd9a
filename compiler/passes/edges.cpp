// Applies the order that a kernel asks for (pass `edges`), by this algorithm:
//
//   for each core, for each stretch between barriers:
//     leave the stretch as it is unless an instruction is to follow a later one
//     build a graph: dependences of memory and state, and the dependences that the kernel asks for
//     repeat: issue the oldest instruction whose predecessors have all been issued
//     refuse a circle, and a dependence that would cross a barrier
#include "compiler/passes/edges.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/precedence.hpp"
#include "isa/program/ordering.hpp"

namespace nkisim::compiler {
namespace {

// Brings the instructions of one core into an order that has all that is asked for.
class Sorter {
 public:
  Sorter(const isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed,
         int core)
      : program_(program), uses_(uses), placed_(placed) {
    for (std::uint32_t i = 0; i < program.insts().size(); ++i) {
      const isa::Inst& inst = program.insts()[i];
      if (inst.core != core) continue;
      const auto number = static_cast<std::uint32_t>(mine_.size());
      mine_.push_back(i);
      if (inst.ordering == 0) continue;
      asked_ += program.ordering(inst).after.size();
      if (program.ordering(inst).id != 0) numbers_[program.ordering(inst).id] = number;
    }
  }

  /// The number of dependences that the core's instructions ask for.
  [[nodiscard]] std::size_t asked() const { return asked_; }

  /// Writes the new order to those places of `order` that are this core's; how many moved.
  std::size_t run(std::vector<std::uint32_t>& order) {
    std::size_t moved = 0;
    std::size_t begin = 0;
    for (std::size_t p = 0; p <= mine_.size(); ++p) {
      if (p < mine_.size() && !is_barrier(inst(p))) {
        backward_ |= waits_for_later(p);
        continue;
      }
      if (p < mine_.size() && waits_for_later(p)) refuse_barrier(p, p);
      if (backward_) moved += sort(begin, p, order);
      backward_ = false;
      begin = p + 1;
    }
    return moved;
  }

 private:
  struct Node {
    std::vector<std::uint32_t> needs, followers;
    std::uint32_t open = 0;
    bool done = false;
  };

  [[nodiscard]] const isa::Inst& inst(std::size_t number) const {
    return program_.insts()[mine_[number]];
  }

  [[nodiscard]] bool waits_for_later(std::size_t number) const {
    const auto& after = program_.ordering(inst(number)).after;
    return std::any_of(after.begin(), after.end(),
                       [&](std::uint32_t id) { return numbers_.at(id) >= number; });
  }

  // Stably: whatever may go first of those that the program has first.
  std::size_t sort(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& order) {
    const std::vector<Node> before = nodes(begin, end);
    std::vector<Node> left = before;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (std::uint32_t n = 0; n < left.size(); ++n) {
      if (left[n].open == 0) ready.push(n);
    }
    std::size_t next = begin, moved = 0;
    std::uint32_t latest = 0;
    while (!ready.empty()) {
      const std::uint32_t n = ready.top();
      ready.pop();
      left[n].done = true;
      if (n < latest) ++moved;
      latest = std::max(latest, n);
      order[mine_[next++]] = mine_[begin + n];
      for (const std::uint32_t follower : left[n].followers) {
        if (--left[follower].open == 0) ready.push(follower);
      }
    }
    if (next != end) refuse_circle(begin, left);
    return moved;
  }

  std::vector<Node> nodes(std::size_t begin, std::size_t end) const {
    std::vector<Node> out(end - begin);
    const auto link = [&](std::uint32_t earlier, std::uint32_t later) {
      out[later].needs.push_back(earlier);
      out[earlier].followers.push_back(later);
      ++out[later].open;
    };
    Precedence precedence(program_, uses_, placed_);
    for (std::uint32_t n = 0; n < out.size(); ++n) {
      for (const Hazards::Edge& edge :
           precedence.add(mine_[begin + n], n, [](std::uint32_t) { return false; })) {
        link(edge.producer, n);
      }
      for (const std::uint32_t id : program_.ordering(inst(begin + n)).after) {
        const std::uint32_t number = numbers_.at(id);
        if (number >= end) refuse_barrier(begin + n, end);
        if (number >= begin + n) link(static_cast<std::uint32_t>(number - begin), n);
      }
    }
    return out;
  }

  [[noreturn]] void refuse(std::size_t number, const std::string& message) const {
    isa::Error e(isa::Rule::ordering, message);
    e.at(isa::spec(inst(number)).name, inst(number).loc);
    program_.locate(e);
    throw e;
  }

  [[noreturn]] void refuse_barrier(std::size_t number, std::size_t barrier) const {
    refuse(number, called(inst(number), program_) +
                       " is to run after an instruction that comes later, beyond " +
                       called(inst(barrier), program_) +
                       ", which nothing passes; one before it is required");
  }

  [[noreturn]] void refuse_circle(std::size_t begin, const std::vector<Node>& left) const {
    std::vector<std::uint32_t> way;
    std::vector<bool> seen(left.size(), false);
    std::uint32_t n = 0;
    while (left[n].done) ++n;
    while (!seen[n]) {
      seen[n] = true;
      way.push_back(n);
      n = *std::find_if(left[n].needs.begin(), left[n].needs.end(),
                        [&](std::uint32_t need) { return !left[need].done; });
    }
    way.erase(way.begin(), std::find(way.begin(), way.end(), n));
    constexpr std::size_t kShown = 6;
    std::string text;
    for (std::size_t k = 0; k < std::min(way.size(), kShown); ++k) {
      text += called(inst(begin + way[k]), program_) + " after ";
    }
    if (way.size() > kShown) text += "... after ";
    refuse(begin + n, "the order asked for is a circle: " + text +
                          called(inst(begin + n), program_) +
                          "; one that operands and other dependences allow is required");
  }

  const isa::Program& program_;
  const isa::Uses& uses_;
  const std::vector<bool>& placed_;
  std::vector<std::uint32_t> mine_;  // numbers in the program of the core's instructions
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_;  // id to the number in mine_
  std::size_t asked_ = 0;
  bool backward_ = false;
};

}  // namespace

PassResult edges(Unit& unit) {
  isa::Program& program = unit.program;
  if (!program.ordered()) return {};
  isa::check_ordering(program, false);
  const std::vector<bool> placed = unit.final_addresses();
  std::vector<std::uint32_t> order(program.insts().size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::size_t asked = 0, moved = 0;
  for (int core = 0; core < program.cores(); ++core) {
    Sorter sorter(program, unit.uses(), placed, core);
    asked += sorter.asked();
    moved += sorter.run(order);
  }
  if (moved > 0) unit.reorder(order);
  return {asked, std::to_string(moved) + " instructions moved behind later ones"};
}

}  // namespace nkisim::compiler
