// Enumerates all interleavings of a small program, with values, to decide if its result depends on
// the interleaving.
//
// Written against docs/hazards.md, "What the hardware promises", and nothing of checks/. Engines
// issue in order, may issue before earlier instructions have finished, and read, write and finish
// in order. Transfers of a queue begin when they are triggered, read and write whenever they like,
// and finish in order; all but the last share of their increment may come before they have moved
// anything.
#pragma once

#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tests/hazards/small_program.hpp"

namespace nkisim::test {

class Oracle {
 public:
  explicit Oracle(const SmallProgram& program, std::size_t most_states = 3'000'000)
      : program_(program), most_states_(most_states) {
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto e = static_cast<std::size_t>(program[i].engine);
      issue_[e].push_back(static_cast<int>(i));
      (program[i].dma ? transfers_ : compute_)[e].push_back(static_cast<int>(i));
    }
  }

  struct Answer {
    bool race = false;      // some two interleavings disagree
    bool deadlock = false;  // some interleaving gets stuck
    bool gave_up = false;
    std::size_t states = 0;
  };

  Answer ask() {
    State start;
    start.cells.fill(1);
    start.seen.assign(program_.size(), 0);
    start.phase.assign(program_.size(), 0);
    push(start);
    while (!todo_.empty() && !answer_.race) {
      const State s = std::move(todo_.back());
      todo_.pop_back();
      if (!step(s) && !finished(s)) answer_.deadlock = true;
      if (answer_.states > most_states_) {
        answer_.gave_up = true;
        break;
      }
    }
    return answer_;
  }

 private:
  static constexpr std::size_t kEngines = isa::kEngineCount;
  // Bits of an instruction's progress.
  enum Phase : std::uint8_t { kIssued = 1, kRead = 2, kShares15 = 4, kWritten = 8, kDone = 16 };

  struct State {
    std::array<std::uint8_t, kEngines> issued{};
    std::vector<std::uint8_t> phase;
    std::map<int, std::int64_t> semaphores;
    std::array<std::uint64_t, kCells> cells{};  // what was written to a cell, in order
    std::vector<std::uint64_t> seen;            // what an instruction read
  };

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    a ^= b + 0x9E3779B97F4A7C15ULL + (a << 6U) + (a >> 2U);
    a ^= a >> 31U;
    return a * 0xBF58476D1CE4E5B9ULL;
  }
  std::uint64_t progress(const State& s) const {
    std::uint64_t h = 7;
    for (const auto i : s.issued) h = mix(h, i);
    for (const auto p : s.phase) h = mix(h, p + 1U);
    return h;
  }
  static std::uint64_t data(const State& s) {
    std::uint64_t h = 11;
    for (const auto c : s.cells) h = mix(h, c);
    for (const auto v : s.seen) h = mix(h, v);
    return h;
  }

  void push(const State& s) {
    const std::uint64_t where = progress(s), what = data(s);
    const auto [at, fresh] = values_.emplace(where, what);
    if (!fresh && at->second != what) {
      answer_.race = true;  // the same work done, with different values
      return;
    }
    std::uint64_t h = where;
    for (const auto& [id, value] : s.semaphores) {
      h = mix(h, static_cast<std::uint64_t>(id));
      h = mix(h, static_cast<std::uint64_t>(value) + 1000);
    }
    if (!visited_.insert(h).second) return;
    ++answer_.states;
    todo_.push_back(s);
  }

  bool finished(const State& s) const {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if ((s.phase[i] & kDone) == 0) return false;
    }
    return true;
  }

  static bool met(const State& s, const isa::SemaphoreWait& w) {
    const auto at = s.semaphores.find(w.semaphore);
    const std::int64_t value = at == s.semaphores.end() ? 0 : at->second;
    switch (w.compare) {
      case isa::SemaphoreWait::Compare::kGe:
        return value >= w.value;
      case isa::SemaphoreWait::Compare::kEq:
        return value == w.value;
      case isa::SemaphoreWait::Compare::kLe:
        return value <= w.value;
      case isa::SemaphoreWait::Compare::kGt:
        return value > w.value;
      case isa::SemaphoreWait::Compare::kLt:
        return value < w.value;
    }
    return false;
  }

  static bool in_shares(const SmallOp& op, const isa::SemaphorePost& p) {
    return op.dma && !p.at_issue && p.action == isa::SemaphorePost::Action::kAdd && p.value > 0 &&
           p.value % kShares == 0;
  }
  static void change(State& s, const isa::SemaphorePost& p, std::int64_t value) {
    std::int64_t& now = s.semaphores[p.semaphore];
    using enum isa::SemaphorePost::Action;
    if (p.action == kSet) {
      now = value;
    } else {
      now += p.action == kIncrement || p.action == kAdd ? value : -value;
    }
  }
  static std::int64_t by(const isa::SemaphorePost& p) {
    using enum isa::SemaphorePost::Action;
    return p.action == kIncrement || p.action == kDecrement ? 1 : p.value;
  }

  void read(State& s, std::size_t i) const {
    const CellRange& r = program_[i].src;
    std::uint64_t h = i + 100;
    for (int c = r.first; c < r.first + r.count; ++c)
      h = mix(h, s.cells[static_cast<std::size_t>(c)]);
    s.seen[i] = h;
    s.phase[i] |= kRead;
  }
  void write(State& s, std::size_t i) const {
    const CellRange& r = program_[i].dst;
    for (int c = r.first; c < r.first + r.count; ++c) {
      auto& cell = s.cells[static_cast<std::size_t>(c)];
      cell = mix(mix(cell, i + 1), s.seen[i]);
    }
    s.phase[i] |= kWritten;
  }
  void done(State& s, std::size_t i) const {
    s.phase[i] |= kDone;
    for (const auto& p : program_[i].posts) {
      if (p.at_issue) continue;
      change(s, p, in_shares(program_[i], p) ? p.value / kShares : by(p));
    }
  }

  // Pushes everything that can happen next; false if nothing can.
  bool step(const State& s) {
    bool any = false;
    const auto follow = [&](State&& next) {
      any = true;
      push(next);
    };
    for (std::size_t e = 0; e < kEngines; ++e) {
      step_issue(s, e, follow);
      step_compute(s, e, follow);
      step_transfers(s, e, follow);
    }
    return any;
  }

  template <typename Fn>
  void step_issue(const State& s, std::size_t e, const Fn& follow) {
    if (s.issued[e] >= issue_[e].size()) return;
    const auto i = static_cast<std::size_t>(issue_[e][s.issued[e]]);
    for (const auto& w : program_[i].waits) {
      if (!met(s, w)) return;
    }
    State next = s;
    ++next.issued[e];
    next.phase[i] |= kIssued;
    for (const auto& p : program_[i].posts) {
      if (p.at_issue) change(next, p, by(p));
    }
    follow(std::move(next));
  }

  template <typename Fn>
  void step_compute(const State& s, std::size_t e, const Fn& follow) {
    for (const int n : compute_[e]) {
      const auto i = static_cast<std::size_t>(n);
      const std::uint8_t phase = s.phase[i];
      if ((phase & kDone) != 0) continue;
      if ((phase & kIssued) == 0) return;
      State next = s;
      if ((phase & kRead) == 0) {
        read(next, i);
      } else if ((phase & kWritten) == 0) {
        write(next, i);
      } else {
        done(next, i);
      }
      follow(std::move(next));
      return;
    }
  }

  template <typename Fn>
  void step_transfers(const State& s, std::size_t e, const Fn& follow) {
    bool first = true;  // all before it have finished
    for (const int n : transfers_[e]) {
      const auto i = static_cast<std::size_t>(n);
      const std::uint8_t phase = s.phase[i];
      if ((phase & kDone) != 0) continue;
      if ((phase & kIssued) == 0) return;
      if ((phase & kRead) == 0) {
        State next = s;
        read(next, i);
        follow(std::move(next));
      } else if ((phase & kWritten) == 0) {
        State next = s;
        write(next, i);
        follow(std::move(next));
      }
      if (first && (phase & kShares15) == 0) {
        State next = s;
        next.phase[i] |= kShares15;
        for (const auto& p : program_[i].posts) {
          if (in_shares(program_[i], p)) change(next, p, p.value - p.value / kShares);
        }
        follow(std::move(next));
      } else if (first && (phase & kWritten) != 0) {
        State next = s;
        done(next, i);
        follow(std::move(next));
      }
      first = false;
    }
  }

  const SmallProgram& program_;
  std::size_t most_states_;
  std::array<std::vector<int>, kEngines> issue_, compute_, transfers_;
  std::vector<State> todo_;
  std::unordered_map<std::uint64_t, std::uint64_t> values_;
  std::unordered_set<std::uint64_t> visited_;
  Answer answer_;
};

}  // namespace nkisim::test
