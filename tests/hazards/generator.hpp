// Makes random correct programs with explicit semaphores, and puts typical synchronisation mistakes
// into them.
#pragma once

#include <algorithm>
#include <random>
#include <utility>

#include "tests/hazards/small_program.hpp"

namespace nkisim::test {

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  /// A correct program of 3 to `most` operations.
  SmallProgram correct(int most = 7) {
    semaphores_ = 0;
    switch (pick(4)) {
      case 0:
        return counters(pick(3, most), true);
      case 1:
        return counters(pick(3, most), false);
      case 2:
        return joined(pick(3, most));
      default:
        return flags(pick(2));
    }
  }

  /// Counters that any operation may raise, waited for with values that its predecessors reach.
  SmallProgram wild() {
    SmallProgram program;
    const int counters = pick(1, 3);
    std::vector<std::int32_t> sums(static_cast<std::size_t>(counters), 0);
    const int count = pick(3, 7);
    for (int n = 0; n < count; ++n) {
      SmallOp op = random_op();
      for (std::size_t c = 0; c < sums.size(); ++c) {
        if (sums[c] > 0 && pick(2) == 0) {
          const std::int32_t less = pick(3) == 0 ? pick(sums[c]) : 0;
          op.waits.push_back({static_cast<std::uint16_t>(c), Compare::kGe, sums[c] - less});
        }
      }
      for (std::size_t c = 0; c < sums.size(); ++c) {
        if (pick(2) != 0) continue;
        auto post = post_of(op, static_cast<std::uint16_t>(c));
        post.at_issue = pick(6) == 0;
        op.posts.push_back(post);
        sums[c] += op.dma ? kShares : 1;
      }
      program.push_back(op);
    }
    return program;
  }

  /// Removes or weakens one wait (or its post); false if there is none.
  bool weaken(SmallProgram& program) {
    std::vector<std::pair<std::size_t, std::size_t>> waits;
    for (std::size_t i = 0; i < program.size(); ++i) {
      for (std::size_t w = 0; w < program[i].waits.size(); ++w) waits.emplace_back(i, w);
    }
    if (waits.empty()) return false;
    const auto [i, w] = waits[static_cast<std::size_t>(pick(static_cast<int>(waits.size())))];
    auto& wait = program[i].waits[w];
    switch (pick(5)) {
      case 0:
      case 1:
        program[i].waits.erase(program[i].waits.begin() + static_cast<std::ptrdiff_t>(w));
        break;
      case 2:
        if (wait.compare == isa::SemaphoreWait::Compare::kEq) {
          wait.compare = isa::SemaphoreWait::Compare::kGe;
        }
        wait.value -= 1;
        break;
      case 3:
        if (wait.value > kShares) {
          wait.value -= kShares;
        } else {
          wait.value -= pick(1, std::max(2, wait.value));
        }
        break;
      default:  // the post comes too early
        for (SmallOp& op : program) {
          for (auto& p : op.posts) {
            if (p.semaphore == wait.semaphore && pick(2) == 0) p.at_issue = true;
          }
        }
    }
    return true;
  }

 private:
  using Action = isa::SemaphorePost::Action;
  using Compare = isa::SemaphoreWait::Compare;

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  int pick(int from, int below_or_at) { return from + pick(below_or_at - from + 1); }

  CellRange range() {
    const int first = pick(kCells), count = pick(1, std::min(2, kCells - first));
    return {first, count};
  }

  SmallOp random_op() {
    constexpr isa::Engine kEngines[] = {isa::Engine::kVector, isa::Engine::kScalar,
                                        isa::Engine::kGpSimd, isa::Engine::kSync};
    SmallOp op;
    op.engine = kEngines[pick(4)];
    op.dma = op.engine == isa::Engine::kSync || (op.engine != isa::Engine::kVector && pick(3) == 0);
    op.dst = range();
    if (op.dma || pick(3) > 0) {
      for (int i = 0; i < 20; ++i) {
        op.src = range();
        op.src.count = op.dst.count;
        if (op.src.first + op.src.count > kCells) op.src.first = kCells - op.src.count;
        if (!op.dma || !op.src.overlaps(op.dst)) break;
      }
      if (op.dma && op.src.overlaps(op.dst)) op.dst = {0, 1}, op.src = {kCells - 1, 1};
    }
    return op;
  }

  static bool in_order(const SmallOp& a, const SmallOp& b) {
    return !a.dma && !b.dma && a.engine == b.engine;
  }
  std::uint16_t fresh() { return semaphores_++; }
  static isa::SemaphorePost post_of(const SmallOp& op, std::uint16_t id) {
    if (op.dma) return {id, Action::kAdd, false, kShares};
    return {id, Action::kIncrement, false, 1};
  }

  // A counter per agent that goes up with every operation, as compilers do; or one semaphore for
  // every dependence.
  SmallProgram counters(int count, bool per_agent) {
    SmallProgram program;
    std::vector<std::pair<int, std::uint16_t>> ids;  // agent: engine, and whether it is a queue
    std::vector<std::int64_t> sums;
    std::vector<std::pair<std::uint16_t, std::int32_t>> proof;  // per operation
    for (int n = 0; n < count; ++n) {
      SmallOp op = random_op();
      std::vector<std::uint16_t> waited;
      for (std::size_t a = program.size(); a-- > 0;) {
        if (!op.conflicts(program[a]) || in_order(program[a], op)) continue;
        if (!per_agent) {
          const std::uint16_t id = fresh();
          program[a].posts.push_back(post_of(program[a], id));
          op.waits.push_back({id, Compare::kGe, program[a].dma ? kShares : 1});
          continue;
        }
        const auto [id, value] = proof[a];
        if (std::find(waited.begin(), waited.end(), id) != waited.end()) continue;
        waited.push_back(id);
        op.waits.push_back({id, Compare::kGe, value});
      }
      if (per_agent) {
        const int agent = static_cast<int>(op.engine) * 2 + (op.dma ? 1 : 0);
        auto at = std::find_if(ids.begin(), ids.end(), [&](auto& i) { return i.first == agent; });
        if (at == ids.end()) {
          ids.emplace_back(agent, fresh());
          sums.push_back(0);
          at = std::prev(ids.end());
        }
        auto& sum = sums[static_cast<std::size_t>(at - ids.begin())];
        sum += op.dma ? kShares : 1;
        op.posts.push_back(post_of(op, at->second));
        proof.emplace_back(at->second, static_cast<std::int32_t>(sum));
      }
      program.push_back(op);
    }
    return program;
  }

  // Several producers raise one counter, and who waits for it waits for all of them.
  SmallProgram joined(int count) {
    SmallProgram program;
    for (int n = 0; n < count; ++n) {
      SmallOp op = random_op();
      const std::uint16_t id = fresh();
      std::int32_t sum = 0;
      for (SmallOp& a : program) {
        if (!op.conflicts(a) || in_order(a, op)) continue;
        a.posts.push_back(post_of(a, id));
        sum += a.dma ? kShares : 1;
      }
      if (sum > 0) op.waits.push_back({id, Compare::kGe, sum});
      program.push_back(op);
    }
    return program;
  }

  // A buffer handed to and fro between a producer and a consumer: a flag that the consumer clears,
  // or tokens that it takes away.
  SmallProgram flags(int tokens) {
    SmallProgram program;
    SmallOp produce = random_op(), consume = random_op();
    while (produce.dma || produce.engine == isa::Engine::kSync) produce = random_op();
    while (consume.dma || consume.engine == produce.engine) consume = random_op();
    produce.dst = {0, 1};
    produce.src = {};
    consume.dst = {2, 1};
    consume.src = {0, 1};
    const std::uint16_t full = fresh(), empty = fresh();
    const int rounds = pick(2, 3);
    for (int r = 0; r < rounds; ++r) {
      SmallOp p = produce, c = consume;
      if (r > 0) take(p, empty, tokens != 0);
      give(p, full, tokens != 0);
      take(c, full, tokens != 0);
      give(c, empty, tokens != 0);
      program.push_back(p);
      program.push_back(c);
    }
    return program;
  }
  static void give(SmallOp& op, std::uint16_t id, bool token) {
    op.posts.push_back({id, token ? Action::kIncrement : Action::kSet, false, 1});
  }
  void take(SmallOp& op, std::uint16_t id, bool token) {
    op.waits.push_back({id, pick(2) == 0 ? Compare::kGe : Compare::kEq, 1});
    op.posts.push_back({id, token ? Action::kDecrement : Action::kSet, true, token ? 1 : 0});
  }

  std::mt19937 random_;
  std::uint16_t semaphores_ = 0;
};

}  // namespace nkisim::test
