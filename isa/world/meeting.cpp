// Records which ranks have arrived at a collective operation, and executes it once all have.

#include "isa/world/meeting.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "isa/program/program.hpp"

namespace nkisim::isa {

Meeting::Meeting(const World& world, std::vector<const Program*> programs)
    : world_(world),
      cores_(static_cast<std::size_t>(programs.front()->cores())),
      hosts_(programs.size()),
      owner_(programs.size()) {
  std::iota(owner_.begin(), owner_.end(), 0);
  for (const std::int64_t rank : owner_) {
    waiting_.push_back({.rank = rank, .program = programs[static_cast<std::size_t>(rank)]});
    host(rank).recorded.resize(cores_);
    host(rank).represents = {rank};
  }
}

void Meeting::host(std::int64_t rank, std::vector<EvalContext*> cores, std::span<const int> twins) {
  Host& h = host(rank);
  h.contexts = std::move(cores);
  for (const int twin : twins) {
    h.represents.push_back(twin);
    owner_[static_cast<std::size_t>(twin)] = rank;
  }
}

// ---- calls ------------------------------------------------------------------------------------
Meeting::Call& Meeting::call(std::int64_t rank, std::uint64_t number) {
  Host& h = host(rank);
  while (h.calls.size() <= number - h.happened) {
    h.calls.push_back({.insts = std::vector<const Inst*>(cores_)});
  }
  return h.calls[number - h.happened];
}

const Meeting::Call& Meeting::call(std::int64_t rank, std::uint64_t number) const {
  return host(rank).calls.at(number - host(rank).happened);
}

std::uint64_t Meeting::note(std::int64_t rank, std::size_t core, const Inst& inst) {
  const std::uint64_t number = host(rank).recorded[core]++;
  Call& c = call(rank, number);
  c.insts[core] = &inst;
  ++c.known;
  return number;
}

std::size_t Meeting::known(std::int64_t rank, std::uint64_t number) const {
  return call(rank, number).known;
}

void Meeting::arrive(std::int64_t rank, std::uint64_t number) {
  ++call(rank, number).arrived;
  if (number == host(rank).happened) look(rank);
}

const RankSources& Meeting::read(std::int64_t rank, std::uint64_t number) {
  Call& c = call(rank, number);
  c.sources = read_sources(calls_of(rank, c));
  return c.sources;
}

void Meeting::receive(std::int64_t rank, std::uint64_t number, RankSources sources) {
  call(rank, number).sources = std::move(sources);
}

std::vector<std::int64_t> Meeting::read_lengths(std::int64_t rank, std::uint64_t number) {
  Call& c = call(rank, number);
  c.lengths = lengths_from(calls_of(rank, c).front(), group_of(rank, number).size());
  return c.lengths;
}

void Meeting::receive_lengths(std::int64_t rank, std::uint64_t number,
                              std::vector<std::int64_t> lengths) {
  call(rank, number).lengths = std::move(lengths);
}

const Inst& Meeting::inst(std::int64_t rank, std::uint64_t number) const {
  return **std::find_if(call(rank, number).insts.begin(), call(rank, number).insts.end(),
                        [](const Inst* inst) { return inst != nullptr; });
}

Meeting::Group Meeting::group_of(std::int64_t rank, std::uint64_t number) const {
  return isa::group_of(inst(rank, number), rank);
}

RankCalls Meeting::calls_of(std::int64_t rank, const Call& call) const {
  const Host& h = host(host_of(rank));
  RankCalls calls;
  for (std::size_t core = 0; core < cores_; ++core) {
    Member member{.rank = rank, .inst = call.insts[core]};
    if (h.contexts.empty()) {
      member.program = &program(rank);
    } else {
      member.context = h.contexts[core];
    }
    if (core < call.sources.size()) member.sources = &call.sources[core];
    calls.push_back(member);
  }
  return calls;
}

// ---- who waits --------------------------------------------------------------------------------
// Whether all cores of a host have come to its oldest call.
void Meeting::look(std::int64_t rank) {
  const Host& h = host(rank);
  const bool there = !h.calls.empty() && h.calls.front().arrived == cores_;
  for (const std::int64_t each : h.represents) {
    Waiting& w = waiting_[static_cast<std::size_t>(each)];
    w.inst = nullptr;
    if (!there) continue;
    w.inst = h.calls.front().insts.front();
    w.group = w.key = isa::group_of(*w.inst, each);
    std::sort(w.key.begin(), w.key.end());
  }
  changed_ = changed_ || there;
}

bool Meeting::anybody_waits() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Waiting& w) { return w.inst != nullptr; });
}

// The first member of a waiting rank's group that is not at a call for the same ranks.
const Meeting::Waiting* Meeting::awaited(const Waiting& rank) const {
  for (const std::int64_t member : rank.group) {
    if (!waits(member)) return &at(member);
  }
  for (const std::int64_t member : rank.group) {
    if (at(member).key != rank.key) return &at(member);
  }
  return nullptr;
}

Meeting::Ready Meeting::ready(std::int64_t rank) const {
  Ready found;
  std::vector<std::int64_t> left = {host_of(rank)};
  std::set<std::int64_t> seen;
  while (!left.empty()) {
    const std::int64_t next = left.back();
    left.pop_back();
    if (!found.hosts.insert(next).second) continue;
    for (const std::int64_t each : host(next).represents) {
      if (seen.count(each) != 0) continue;
      const Waiting& w = at(each);
      if (w.inst == nullptr || awaited(w) != nullptr) return {};
      found.groups.push_back(w.group.empty() ? Group{each} : w.group);
      for (const std::int64_t member : found.groups.back()) {
        seen.insert(member);
        left.push_back(host_of(member));
      }
    }
  }
  return found;
}

Meeting::Lengths Meeting::run(const Group& group, bool values) {
  std::vector<RankCalls> calls;
  Lengths lengths;
  const bool takes_part = !at(group.front()).group.empty();
  bool here = false;
  for (const std::int64_t rank : group) {
    const Host& h = host(host_of(rank));
    const Call& c = h.calls.front();
    calls.push_back(calls_of(rank, c));
    here = here || !h.contexts.empty();
    const bool reads = values && takes_part && c.lengths.empty() && !h.contexts.empty();
    auto own = reads ? lengths_from(calls.back().front(), group.size()) : c.lengths;
    if (!own.empty()) lengths.push_back(std::move(own));
  }
  if (takes_part && here && values) {
    run_collective(calls, world_);
  } else {
    check_collective(calls);
  }
  return lengths;
}

void Meeting::leave(std::int64_t rank) {
  host(rank).calls.pop_front();
  ++host(rank).happened;
  look(rank);
}

// ---- the end ----------------------------------------------------------------------------------
void Meeting::check_finished() const {
  for (const Waiting& w : waiting_) {
    const Host& h = host(w.rank);
    if (h.calls.empty() || h.calls.front().arrived == cores_) continue;
    for (const Inst* inst : h.calls.front().insts) {
      if (inst != nullptr) fail_alone(*w.program, *inst, nullptr);
    }
  }
  if (anybody_waits()) fail_deadlock();
}

void Meeting::fail_deadlock() const {
  const auto first = std::find_if(waiting_.begin(), waiting_.end(),
                                  [](const Waiting& w) { return w.inst != nullptr; });
  std::string text = "deadlock: rank " + std::to_string(first->rank);
  std::vector<std::int64_t> seen;
  const Waiting* one = &*first;
  for (;;) {
    seen.push_back(one->rank);
    const Waiting* next = awaited(*one);
    text += " waits in " + describe_call(*one->program, *one->inst) + " for rank " +
            std::to_string(next == nullptr ? -1 : next->rank);
    if (next == nullptr || std::find(seen.begin(), seen.end(), next->rank) != seen.end()) break;
    if (next->inst == nullptr) {
      text += ", which has ended without the matching call";
      break;
    }
    text += ", which";
    one = next;
  }
  Error e(Rule::rank_deadlock, text);
  e.at(spec(*first->inst).name, first->inst->loc);
  first->program->locate(e);
  throw e;
}

}  // namespace nkisim::isa
