// Orders the instructions between barriers so that they need less SBUF and PSUM, by this algorithm:
//
//   build the graph of dependences, and mark the instructions that `delay` names
//   at any time: issue ready instructions that end at least as many bytes as they begin
//   for each instruction that is not marked, in program order, then for each marked one:
//     issue all that it needs, depth first, then the instruction
//     spread: after the first read of a tile, issue its other readers if they begin fewer bytes
#include "compiler/passes/memory_saving_order.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "compiler/analysis/precedence.hpp"
#include "compiler/analysis/tile_lives.hpp"

namespace nkisim::compiler {
namespace {

// Orders one block. Whenever an instruction that needs no more memory is ready it goes; else the
// oldest that is not to wait, preceded by what it needs, each need by its own needs.
class MemorySavingBlock {
 public:
  MemorySavingBlock(const isa::Program& program, const isa::Operands& operands,
                    Precedence& precedence, std::span<const std::uint32_t> block, TileLives& lives,
                    Delay delay)
      : program_(program),
        operands_(operands),
        block_(block),
        lives_(lives),
        spread_(delay == Delay::kSpread),
        nodes_(block.size()) {
    find_needs(precedence);
    find_followers();
    find_waiting(delay);
  }

  std::vector<std::uint32_t> run() {
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].open == 0) offer(n);
    }
    issue_free();
    for (const bool waiting : {false, true}) {
      for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].waits != waiting) continue;
        reach(n);
        use_up();
      }
    }
    return std::move(order_);
  }

 private:
  struct Node {
    std::uint32_t needs = 0, needs_end = 0;          // in needs_, ascending
    std::uint32_t followers = 0, followers_end = 0;  // in followers_, ascending
    std::uint32_t open = 0;                          // needs that have not been issued
    std::uint32_t next = 0;                          // the first of them may be needs_[next]
    bool waits = false;
    bool done = false;
  };
  using Numbers = std::span<const std::uint32_t>;
  [[nodiscard]] Numbers needs(const Node& node) const {
    return Numbers(needs_).subspan(node.needs, node.needs_end - node.needs);
  }
  [[nodiscard]] Numbers followers(const Node& node) const {
    return Numbers(followers_).subspan(node.followers, node.followers_end - node.followers);
  }

  void find_needs(Precedence& precedence) {
    precedence.restart();
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      Node& node = nodes_[n];
      node.needs = node.next = static_cast<std::uint32_t>(needs_.size());
      for (const Hazards::Edge& edge :
           precedence.add(block_[n], n, [](std::uint32_t) { return false; })) {
        needs_.push_back(edge.producer);
        ++nodes_[edge.producer].followers_end;
      }
      node.needs_end = static_cast<std::uint32_t>(needs_.size());
      node.open = node.needs_end - node.needs;
      std::sort(needs_.begin() + node.needs, needs_.end());
    }
  }

  void find_followers() {
    std::uint32_t begin = 0;
    for (Node& node : nodes_) {
      node.followers = begin;
      begin += std::exchange(node.followers_end, begin);
    }
    followers_.resize(begin);
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      for (const std::uint32_t need : needs(nodes_[n])) {
        followers_[nodes_[need].followers_end++] = n;
      }
    }
  }

  // By the lives that the program's own order gives the tiles.
  void find_waiting(Delay delay) {
    if (delay == Delay::kNone) return;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      const std::int64_t begins = lives_.begins_in_order(block_[n]).sum();
      nodes_[n].waits = delay == Delay::kAll ? begins > lives_.ends_in_order(block_[n]).sum()
                                             : begins > 0 && !reads_chip(block_[n]);
    }
  }

  [[nodiscard]] bool reads_chip(std::uint32_t i) const {
    const auto operands = operands_.of(i);
    return std::any_of(operands.begin(), operands.end(),
                       [](const isa::Operand& o) { return o.on_chip() && !o.write(); });
  }

  // Issues an instruction and before it all it needs, depth first.
  void reach(std::uint32_t goal) {
    std::vector<std::uint32_t> path{goal};
    while (!path.empty()) {
      Node& node = nodes_[path.back()];
      while (node.next < node.needs_end && nodes_[needs_[node.next]].done) ++node.next;
      if (node.done) {
        path.pop_back();
      } else if (node.next < node.needs_end) {
        path.push_back(needs_[node.next]);
      } else {
        issue(path.back());
        issue_free();
      }
    }
  }

  // Tiles that have just been read for the first time: where all their other readers together begin
  // less than such a tile has, they go now and end it.
  void use_up() {
    while (!begun_.empty()) {
      const TileLives::Use use = begun_.front();
      begun_.pop_front();
      const auto readers = to_come(use);
      if (cost(readers) >= use.sbuf) continue;
      for (const std::uint32_t n : readers) reach(n);
    }
  }

  void note_begun(std::uint32_t n) {
    if (!spread_ || nodes_[n].waits) return;
    lives_.each_use(block_[n], [&](const TileLives::Use& use) {
      if (use.sbuf > 0 && seen_.insert(use.tile).second) begun_.push_back(use);
    });
  }

  std::vector<std::uint32_t> to_come(const TileLives::Use& use) const {
    std::vector<std::uint32_t> out;
    for (const std::uint32_t i : use.instructions) {
      const auto n = number_of(i);
      if (n && !nodes_[*n].done) out.push_back(*n);
    }
    return out;
  }

  // Bytes of SBUF that instructions and what they need begin; endless if a need has needs itself
  // or PSUM is full.
  [[nodiscard]] std::int64_t cost(const std::vector<std::uint32_t>& numbers) const {
    constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
    const std::set<std::uint32_t> together(numbers.begin(), numbers.end());
    std::set<std::uint32_t> sources;
    OnChipBytes begins;
    const auto add = [&](std::uint32_t n) {
      const OnChipBytes more = lives_.begins(block_[n]);
      begins.sbuf += more.sbuf;
      begins.psum += more.psum;
    };
    for (const std::uint32_t n : numbers) {
      add(n);
      for (const std::uint32_t need : needs(nodes_[n])) {
        if (nodes_[need].done || together.contains(need)) continue;
        if (nodes_[need].open > 0) return kEndless;
        if (sources.insert(need).second) add(need);
      }
    }
    const bool fits = lives_.psum() + begins.psum <= program_.machine().psum_partition_bytes;
    return fits ? begins.sbuf : kEndless;
  }

  // Ready instructions after which no more is filled than before; those that begin nothing first.
  void issue_free() {
    while (true) {
      auto& from = !free_.empty() ? free_ : held_;
      if (from.empty()) return;
      const Offer next = from.top();
      if (!nodes_[next.second].done && !fits_psum(next.second)) {
        if (&from == &held_) return;
        held_.push(next);
        from.pop();
        continue;
      }
      from.pop();
      if (!nodes_[next.second].done) issue(next.second);
    }
  }

  [[nodiscard]] bool fits_psum(std::uint32_t n) const {
    return !spread_ ||
           lives_.psum() + lives_.begins(block_[n]).psum <= program_.machine().psum_partition_bytes;
  }

  void offer(std::uint32_t n) {
    const OnChipBytes begins = lives_.begins(block_[n]), ends = lives_.ends(block_[n]);
    const bool free = spread_ ? begins.sbuf <= ends.sbuf : begins.sum() <= ends.sum();
    if (free) free_.push({begins.sum() > 0, n});
  }

  void issue(std::uint32_t n) {
    nodes_[n].done = true;
    order_.push_back(n);
    lives_.execute(block_[n], [&](std::uint32_t i) {
      const auto other = number_of(i);
      if (other && !nodes_[*other].done && nodes_[*other].open == 0) offer(*other);
    });
    note_begun(n);
    for (const std::uint32_t follower : followers(nodes_[n])) {
      if (--nodes_[follower].open == 0) offer(follower);
    }
  }

  // In this block, if it is.
  [[nodiscard]] std::optional<std::uint32_t> number_of(std::uint32_t i) const {
    const std::size_t next_to = i - block_.front();  // without gaps there it is
    if (next_to < block_.size() && block_[next_to] == i) return static_cast<std::uint32_t>(next_to);
    const auto at = std::lower_bound(block_.begin(), block_.end(), i);
    if (at == block_.end() || *at != i) return {};
    return static_cast<std::uint32_t>(at - block_.begin());
  }

  using Offer = std::pair<bool, std::uint32_t>;
  const isa::Program& program_;
  const isa::Operands& operands_;
  std::span<const std::uint32_t> block_;  // ascending numbers of instructions
  TileLives& lives_;
  bool spread_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> needs_, followers_;  // node by node
  using Oldest = std::priority_queue<Offer, std::vector<Offer>, std::greater<>>;
  Oldest free_, held_;                // ready and no burden; those that PSUM has no space for yet
  std::deque<TileLives::Use> begun_;  // read for the first time, to be looked at
  std::unordered_set<std::uint32_t> seen_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::string_view name(Delay delay) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "sources", "all", "spread"};
  return kNames.at(static_cast<std::size_t>(delay));
}

std::vector<std::uint32_t> memory_saving_order(const isa::Program& program,
                                               const std::vector<bool>& placed,
                                               const isa::Uses& uses, Delay delay) {
  const auto& insts = program.insts();
  std::vector<std::uint32_t> order(insts.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  if (program.explicit_semaphores()) return order;
  Precedence precedence(program, uses, placed);
  for (int core = 0; core < program.cores(); ++core) {
    TileLives lives(program, core, placed, uses);
    std::vector<std::uint32_t> block;
    const auto finish = [&] {
      const auto numbers =
          MemorySavingBlock(program, uses.operands(), precedence, block, lives, delay).run();
      for (std::size_t k = 0; k < numbers.size(); ++k) order[block[k]] = block[numbers[k]];
      block.clear();
    };
    for (std::uint32_t i = 0; i < insts.size(); ++i) {
      if (insts[i].core != core) continue;
      if (!is_barrier(insts[i])) {
        block.push_back(i);
        continue;
      }
      finish();
      lives.execute(i, [](std::uint32_t) {});
    }
    finish();
  }
  return order;
}

}  // namespace nkisim::compiler
