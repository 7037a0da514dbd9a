// Tracks which ranks have arrived at which collective call (a meeting), and executes a call when
// the last member of its group has arrived.
//
// The interpreter and the models keep one each. It knows no time: they say when a rank comes.
#pragma once

#include <deque>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "isa/world/exchange.hpp"

namespace nkisim::isa {

class Meeting {
 public:
  using Group = std::vector<std::int64_t>;
  using Lengths = std::vector<std::vector<std::int64_t>>;
  /// Calls that must start together: the groups of operations, and the ranks of this process in
  /// them.
  struct Ready {
    std::vector<Group> groups;
    std::set<std::int64_t> hosts;
  };

  /// `programs`: of every rank of the world, all for as many cores.
  Meeting(const World& world, std::vector<const Program*> programs);

  /// A rank runs in this process: what its cores see of its memory. It is host of itself and of
  /// `twins`, which do what it does. (A rank of another process is its own host as well.)
  void host(std::int64_t rank, std::vector<EvalContext*> cores, std::span<const int> twins = {});

  /// A core of a host calls a collective next; the number of that call of the rank. It is known
  /// from now on, and the core there once it arrives.
  std::uint64_t note(std::int64_t host, std::size_t core, const Inst& inst);
  /// The number of cores whose part of a call is known.
  [[nodiscard]] std::size_t known(std::int64_t host, std::uint64_t call) const;
  [[nodiscard]] std::size_t cores() const { return cores_; }
  /// A core has come to a call that is recorded.
  void arrive(std::int64_t host, std::uint64_t call);

  /// Reads the data that a known call of a rank of this process sends, from memory as it is now.
  /// run() uses them later.
  const RankSources& read(std::int64_t host, std::uint64_t call);
  /// Takes data that another process has read.
  void receive(std::int64_t host, std::uint64_t call, RankSources sources);
  /// Bytes that a known call sends to each member of its group, if what it sends says so.
  [[nodiscard]] std::vector<std::int64_t> read_lengths(std::int64_t host, std::uint64_t call);
  void receive_lengths(std::int64_t host, std::uint64_t call, std::vector<std::int64_t> lengths);
  [[nodiscard]] Group group_of(std::int64_t host, std::uint64_t call) const;
  [[nodiscard]] const Inst& inst(std::int64_t host, std::uint64_t call) const;

  /// True if all cores of a rank have reached a call, and the calls before have ended.
  [[nodiscard]] bool waits(std::int64_t rank) const { return at(rank).inst != nullptr; }
  [[nodiscard]] bool anybody_waits() const;
  /// True if a rank has begun to wait since the last call of this function.
  [[nodiscard]] bool changed() { return std::exchange(changed_, false); }
  /// The calls that start together with a waiting rank's call; no groups if others are still
  /// missing.
  [[nodiscard]] Ready ready(std::int64_t rank) const;
  /// A group that is ready, each at its oldest call: checks that they make the same one and, if any
  /// of them is of this process and `values` are wanted, computes what each gets. Lengths that
  /// values decide, as lengths_of() has them, are the result. Throws Error.
  Lengths run(const Group& group, bool values);
  /// A host's oldest call has happened.
  void leave(std::int64_t host);
  [[nodiscard]] const Inst& oldest(std::int64_t rank) const { return *at(rank).inst; }

  [[nodiscard]] std::int64_t host_of(std::int64_t rank) const {
    return owner_[static_cast<std::size_t>(rank)];
  }
  /// All that a host stands for, itself first.
  [[nodiscard]] const Group& twins_of(std::int64_t host) const {
    return hosts_[static_cast<std::size_t>(host)].represents;
  }
  [[nodiscard]] const Program& program(std::int64_t rank) const { return *at(rank).program; }
  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(waiting_.size()); }

  /// Nothing more will happen: throws Error if a rank is left at a call, or a core of it alone.
  void check_finished() const;
  /// Throws Error: who waits for whom. At least one rank waits.
  [[noreturn]] void fail_deadlock() const;

 private:
  // One call of a rank, by all of its cores.
  struct Call {
    std::vector<const Inst*> insts;  // per core; null: not known yet
    std::size_t known = 0, arrived = 0;
    RankSources sources = {};  // empty: they are read from memory
    std::vector<std::int64_t> lengths = {};
  };
  // One rank, as another process may run it.
  struct Host {
    std::vector<EvalContext*> contexts = {};   // per core; none: of another process
    std::deque<Call> calls = {};               // not happened yet
    std::uint64_t happened = 0;                // calls before the first of them
    std::vector<std::uint64_t> recorded = {};  // per core: calls
    Group represents = {};
  };
  // A rank that cannot go on: at `inst`, or not waiting if that is null.
  struct Waiting {
    std::int64_t rank = 0;
    const Program* program = nullptr;
    const Inst* inst = nullptr;
    Group group = {};  // empty: it takes no part in the call
    Group key = {};    // the group, ascending
  };
  [[nodiscard]] const Waiting& at(std::int64_t rank) const {
    return waiting_[static_cast<std::size_t>(rank)];
  }
  Host& host(std::int64_t rank) { return hosts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Host& host(std::int64_t rank) const {
    return hosts_[static_cast<std::size_t>(rank)];
  }
  Call& call(std::int64_t host, std::uint64_t number);
  [[nodiscard]] const Call& call(std::int64_t host, std::uint64_t number) const;
  void look(std::int64_t host);
  [[nodiscard]] const Waiting* awaited(const Waiting& rank) const;
  [[nodiscard]] RankCalls calls_of(std::int64_t rank, const Call& call) const;

  World world_;
  std::size_t cores_;
  std::vector<Host> hosts_;          // of every rank
  std::vector<std::int64_t> owner_;  // of every rank: its host
  std::vector<Waiting> waiting_;     // every rank
  bool changed_ = false;
};

}  // namespace nkisim::isa
