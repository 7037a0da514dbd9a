// Finds the semaphore increments (posts) that must have happened once a wait for it is over.
//
// Time is a vector clock: a component counts the events of one agent (such as an engine).
// A counter does not show who raised it. If several agents post to it, a wait for v is over when
// any set of their posts reaches v, so only what every such set has in common certainly happened.
// That is exact for counters that only go up; where they also go down or are set, a post that takes
// away is counted only if it certainly came before the wait (docs/hazards.md).
#pragma once

#include <deque>
#include <optional>

#include "checks/clock.hpp"
#include "checks/stream.hpp"

namespace nkisim::checks {

/// A transfer's completion is written by this many DMA engines, each when its own share is done.
inline constexpr int kDmaEngines = 16;

/// One change of a semaphore in the dynamic program.
struct Post {
  std::uint32_t number = 0;  // of its event in the component: happened for sure from there on
  std::uint32_t own = 0;     // what the post itself says of the component: less for shares of a DMA
  std::uint32_t step = 0;
  std::int64_t amount = 0;  // by which, or (set) to what
  std::int64_t sum = 0;     // of the amounts up to and including this one
};

/// The posts of one kind that one agent makes, in its order.
struct PostList {
  std::uint32_t component = 0;
  std::vector<Post> posts;
  mutable std::size_t near = 0;  // where first_to_reach() was last: waits go up
  /// Index of the first post that brings the sum to `value`, of a counter that only goes up.
  [[nodiscard]] std::size_t first_to_reach(std::int64_t value) const;
  /// The sum of the amounts of posts (after, to] by number.
  [[nodiscard]] std::int64_t sum(std::uint32_t after, std::uint32_t to) const;
  /// Index of the first post with a number above `number`.
  [[nodiscard]] std::size_t first_after(std::uint32_t number) const;
};

struct Semaphore {
  std::uint8_t core = 0;
  std::uint16_t id = 0;
  std::int64_t value = 0;  // while the program is being executed
  std::vector<PostList> up, down, set;
  bool waited = false;
  /// One agent raises it and nothing lowers it: what it proves does not depend on later posts.
  [[nodiscard]] bool simple() const { return up.size() <= 1 && down.empty() && set.empty(); }
  void add(std::vector<PostList>& lists, std::uint32_t component, Post post) const;
};

/// The vector clocks at which steps start, and those that follow for their ends and their posts.
class Clocks {
 public:
  Clocks(const Stream& stream, Components components);
  [[nodiscard]] const Components& components() const { return components_; }
  /// The facts that are certain when step i starts.
  [[nodiscard]] const Clock& start(std::uint32_t step) const { return store_[start_[step]]; }
  /// The event at which all of step i has been done.
  [[nodiscard]] Point end(std::uint32_t step) const;
  /// The facts that are certain once step i has ended.
  [[nodiscard]] Clock after(std::uint32_t step) const;
  /// The facts that are certain once a post has been made.
  [[nodiscard]] Clock after(const PostList& list, const Post& post) const;
  /// Joins `clock` with what is certain once a post has been made.
  void join_after(Clock& clock, const PostList& list, const Post& post) const;
  /// True if that changed anything.
  bool set_start(std::uint32_t step, const Clock& clock);
  /// As that of another step; kNone: nothing is certain.
  bool share_start(std::uint32_t step, std::uint32_t other);

 private:
  void add_own(Clock& clock, std::uint32_t component, std::uint32_t number) const;
  const Stream& stream_;
  Components components_;
  std::deque<Clock> store_;           // 0: nothing is certain
  std::vector<std::uint32_t> start_;  // per step, in store_
};

/// Joins `known`, what somebody knows, with what a wait proves to him. True if he learns something.
bool prove(const Semaphore& semaphore, const isa::SemaphoreWait& wait, const Clocks& clocks,
           Clock& known);

/// True if a semaphore's value satisfies a wait.
[[nodiscard]] bool holds(const isa::SemaphoreWait& wait, std::int64_t value);

}  // namespace nkisim::checks
