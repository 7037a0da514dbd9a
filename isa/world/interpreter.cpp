// Runs ranks without timing: each up to its next collective operation, until all have ended.

#include "isa/world/interpreter.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "isa/world/core_run.hpp"
#include "isa/world/meeting.hpp"
#include "isa/world/shard.hpp"

namespace nkisim::isa {
std::uint64_t interpret(const Program& program, Memory& memory, const InterpretOptions& options) {
  CoreRuns cores;
  for (int c = 0; c < program.cores(); ++c) {
    cores.push_back(std::make_unique<CoreRun>(program, memory, c, options));
  }
  memory.begin_run();
  std::uint64_t count = 0;
  for (;;) {
    bool waiting = false;
    for (const auto& core : cores) {
      if (!core->done && !run_core(*core, options, count)) return count;
      waiting |= core->waiting != nullptr;
    }
    if (!waiting) break;
    meet_alone(program, cores, options);
  }
  if (options.conditions.unwritten == Unwritten::kError && !options.effect) {
    check_outputs(program, memory, options.conditions);
  }
  return count;
}

namespace {

// One rank of a world being interpreted.
struct Rank {
  const RankRun& run;
  InterpretOptions options;
  CoreRuns cores;

  Rank(const RankRun& given, int number, const World& world) : run(given), options(given.options) {
    options.rank = number;
    options.world = world;
    for (int c = 0; c < run.program->cores(); ++c) {
      cores.push_back(std::make_unique<CoreRun>(*run.program, *run.memory, c, options));
    }
    run.memory->begin_run();
  }

  [[nodiscard]] bool waits() const { return cores.front()->waiting != nullptr; }

  // Goes on to the next collective or to the end. False if progress asked to stop.
  bool advance(std::uint64_t& count) {
    for (;;) {
      bool waiting = false;
      for (const auto& core : cores) {
        if (core->waiting == nullptr && !core->done && !run_core(*core, options, count)) {
          return false;
        }
        waiting |= core->waiting != nullptr;
      }
      if (!waiting || at_collective(cores)) return true;
      meet(*run.program, cores, options.values);
    }
  }
};

// A world being interpreted: the ranks of this process, up to where they wait for others.
class WorldRuns {
 public:
  WorldRuns(std::span<const RankRun> runs, const World& world, const Shard& shard)
      : runs_(runs),
        shard_(shard),
        meeting_(world, programs_of(runs)),
        post_(shard, programs_of(runs)) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto rank = static_cast<std::int64_t>(r);
      ranks_.push_back(
          shard.owns(rank) ? std::make_unique<Rank>(runs[r], static_cast<int>(r), world) : nullptr);
      if (ranks_[r] == nullptr) continue;
      std::vector<EvalContext*> contexts;
      for (const auto& core : ranks_[r]->cores) contexts.push_back(&core->context);
      meeting_.host(rank, std::move(contexts));
    }
  }

  std::uint64_t run() {
    for (;; ++phase_) {
      if (!attempt(2 * phase_, [&](std::int64_t& rank) { return advance(rank); })) return count_;
      send_to_others();
      if (!meeting_.anybody_waits()) break;
      bool any = false;
      (void)attempt(2 * phase_ + 1, [&](std::int64_t& at) {
        any = complete_some(at);
        return true;
      });
      if (!any && !failure_) meeting_.fail_deadlock();
    }
    (void)attempt(2 * phase_ + 1, [&](std::int64_t& rank) { return check(rank); });
    agree(shard_, failure_);
    return count_;
  }

 private:
  static std::vector<const Program*> programs_of(std::span<const RankRun> runs) {
    std::vector<const Program*> programs;
    for (const RankRun& run : runs) programs.push_back(run.program);
    return programs;
  }

  // Calls fn(order). True if it returns true or throws; an error waits for those of the other
  // shards.
  template <typename Fn>
  bool attempt(std::int64_t time, Fn&& fn) {
    if (failure_) return true;
    std::int64_t order = 0;
    try {
      if (fn(order)) return true;
      if (shard_.alone()) return false;
      failure_ = Failure{time, order, Error(Rule::interrupted, "the run was interrupted")};
    } catch (Error& e) {
      if (ranks_.size() > 1) e.of_rank(order);
      failure_ = Failure{time, order, e};
    }
    return true;
  }

  // All ranks that can, up to their next collective. False if progress asked to stop.
  bool advance(std::int64_t& rank) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r] == nullptr || ranks_[r]->waits()) continue;
      rank = static_cast<std::int64_t>(r);
      if (!ranks_[r]->advance(count_)) return false;
      if (ranks_[r]->waits()) come(rank, *ranks_[r]);
    }
    return true;
  }

  // A rank has come to a collective with all its cores.
  void come(std::int64_t rank, const Rank& run) {
    std::uint64_t call = 0;
    for (std::size_t c = 0; c < run.cores.size(); ++c) {
      call = meeting_.note(rank, c, *run.cores[c]->waiting);
      meeting_.arrive(rank, call);
      post_.send({.rank = rank, .core = c, .inst = run.cores[c]->waiting});
    }
    if (shard_.alone() || !run.options.values) return;
    const Meeting::Group group = meeting_.group_of(rank, call);
    if (!group.empty()) post_.send(group, rank, call, meeting_.read(rank, call));
  }

  // Throws the first error of all shards.
  void send_to_others() {
    const std::vector<Message> messages = post_.meet(failure_);
    std::optional<Failure> first;
    for (std::size_t shard = 0; shard < messages.size(); ++shard) {
      WordReader in(messages[shard].all);
      if (auto failure = Post::get_failure(in); failure && failure->before(first)) first = failure;
      if (shard == static_cast<std::size_t>(shard_.number)) continue;
      while (!in.at_end()) {
        const Post::Called called = post_.get_called(in);
        meeting_.arrive(called.rank, meeting_.note(called.rank, called.core, *called.inst));
      }
      WordReader own(messages[shard].mine);
      while (!own.at_end()) {
        Post::Sent sent = post_.get_sent(own);
        meeting_.receive(sent.rank, sent.call, std::move(sent.sources));
      }
    }
    if (first) throw Error(first->error);
  }

  // Completes the collectives whose ranks have all come; true if there was one.
  bool complete_some(std::int64_t& at) {
    bool any = false;
    for (at = 0; at < meeting_.ranks(); ++at) {
      if (!meeting_.waits(at)) continue;
      const Meeting::Ready ready = meeting_.ready(at);
      for (const Meeting::Group& group : ready.groups) {
        (void)meeting_.run(group, true);
        for (const std::int64_t rank : group) go_on(rank);
        any = true;
      }
    }
    return any;
  }

  void go_on(std::int64_t rank) {
    const auto& run = ranks_[static_cast<std::size_t>(rank)];
    if (run != nullptr) isa::go_on(run->cores);
    meeting_.leave(rank);
  }

  bool check(std::int64_t& rank) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      rank = static_cast<std::int64_t>(r);
      const InterpretOptions& options = runs_[r].options;
      if (ranks_[r] == nullptr || options.effect) continue;
      if (options.conditions.unwritten != Unwritten::kError) continue;
      check_outputs(*runs_[r].program, *runs_[r].memory, options.conditions);
    }
    return true;
  }

  std::span<const RankRun> runs_;
  const Shard& shard_;
  Meeting meeting_;
  Post post_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // null: of another shard
  std::optional<Failure> failure_;
  std::uint64_t count_ = 0;
  std::int64_t phase_ = 0;
};

}  // namespace

std::uint64_t interpret_world(std::span<const RankRun> runs, const World& world,
                              const Shard& shard) {
  return WorldRuns(runs, world, shard).run();
}

std::uint64_t interpret_world(std::span<const RankRun> runs, const World& world) {
  return interpret_world(runs, world, {});
}

struct Evaluation::Cores {
  CoreRuns all;
};

Evaluation::Evaluation(const Program& program, Memory& memory, int cores, InterpretOptions options)
    : program_(program),
      memory_(memory),
      options_(std::move(options)),
      cores_(std::make_unique<Cores>()) {
  options_.after = [this](const Inst& inst) {
    const auto due = releases_.find(&inst);
    if (due == releases_.end()) return;
    for (const std::uint32_t tensor : due->second) memory_.release(tensor);
    releases_.erase(due);
  };
  for (int c = 0; c < cores; ++c) {
    cores_->all.push_back(std::make_unique<CoreRun>(program, memory, c, options_));
  }
}

Evaluation::~Evaluation() = default;

void Evaluation::release_behind(
    const std::vector<std::pair<std::int64_t, std::uint32_t>>& last_uses) {
  for (const auto& [last, tensor] : last_uses) {
    const Inst* inst = last < 0 ? nullptr : &program_.insts().at(static_cast<std::size_t>(last));
    releases_[inst].push_back(tensor);
  }
}

bool Evaluation::advance(int core, bool complete) {
  auto& cores = cores_->all;
  const CoreRun& wanted = *cores.at(static_cast<std::size_t>(core));
  for (;;) {
    bool all_wait = true;
    for (const auto& c : cores) {
      if (c->waiting == nullptr && !run_core(*c, options_, count_)) return false;
      all_wait = all_wait && c->waiting != nullptr;
    }
    if (wanted.waiting == nullptr) {
      for (const auto& [inst, tensors] : releases_) {
        for (const std::uint32_t tensor : tensors) memory_.release(tensor);
      }
      releases_.clear();
      return true;
    }
    if (!all_wait && !complete) return false;
    meet_alone(program_, cores, options_);
  }
}

}  // namespace nkisim::isa
