// Proves which semaphore increments (posts) must have happened once a wait for the semaphore is
// over.
#include "checks/semaphores.hpp"

namespace nkisim::checks {

std::size_t PostList::first_after(std::uint32_t number) const {
  const auto at =
      std::upper_bound(posts.begin(), posts.end(), number,
                       [](std::uint32_t wanted, const Post& p) { return wanted < p.number; });
  return static_cast<std::size_t>(at - posts.begin());
}

std::size_t PostList::first_to_reach(std::int64_t value) const {
  const auto below = [&](std::size_t i) { return posts[i].sum < value; };
  std::size_t from = 0, to = std::min(near, posts.size());
  if (to < posts.size() && below(to)) {  // in steps that double, from there on
    std::size_t step = 1;
    from = to + 1;
    for (to = from; to < posts.size() && below(to); step *= 2) {
      from = to + 1;
      to = std::min(posts.size(), to + step);
    }
  }
  while (from < to) {
    const std::size_t middle = from + (to - from) / 2;
    if (below(middle)) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  near = from;
  return from;
}

std::int64_t PostList::sum(std::uint32_t after, std::uint32_t to) const {
  const auto until = [this](std::size_t count) { return count == 0 ? 0 : posts[count - 1].sum; };
  return to <= after ? 0 : until(first_after(to)) - until(first_after(after));
}

void Semaphore::add(std::vector<PostList>& lists, std::uint32_t component, Post post) const {
  auto list = std::find_if(lists.begin(), lists.end(),
                           [&](const PostList& l) { return l.component == component; });
  if (list == lists.end()) list = lists.insert(lists.end(), PostList{component, {}, 0});
  post.sum = post.amount + (list->posts.empty() ? 0 : list->posts.back().sum);
  list->posts.push_back(post);
}

Clocks::Clocks(const Stream& stream, Components components)
    : stream_(stream), components_(components), start_(stream.steps.size(), 0) {
  store_.emplace_back(components_.count(), 0);
}

Point Clocks::end(std::uint32_t step) const {
  const Step& s = stream_.steps[step];
  if (s.queue != kNone) return {components_.queue(s.queue), s.transfer};
  return {components_.finished(s.inst->core, s.inst->engine), s.number};
}

// An agent has issued what it has finished.
void Clocks::add_own(Clock& clock, std::uint32_t component, std::uint32_t number) const {
  join(clock, Point{component, number});
  const std::uint32_t engines = components_.issued(0, isa::Engine{});
  if (component < engines) join(clock, Point{component + engines, number});
}

Clock Clocks::after(std::uint32_t step) const {
  const Step& s = stream_.steps[step];
  Clock clock = start(step);
  join(clock, Point{components_.issued(s.inst->core, s.inst->engine), s.number});
  const Point own = end(step);
  add_own(clock, own.component, own.number);
  return clock;
}

Clock Clocks::after(const PostList& list, const Post& post) const {
  Clock clock = start(post.step);
  join_after(clock, list, post);
  return clock;
}

void Clocks::join_after(Clock& clock, const PostList& list, const Post& post) const {
  const Step& s = stream_.steps[post.step];
  join(clock, start(post.step));
  join(clock, Point{components_.issued(s.inst->core, s.inst->engine), s.number});
  add_own(clock, list.component, post.own);
}

bool Clocks::set_start(std::uint32_t step, const Clock& clock) {
  if (start(step) == clock) return false;
  start_[step] = static_cast<std::uint32_t>(store_.size());
  store_.push_back(clock);
  return true;
}

bool Clocks::share_start(std::uint32_t step, std::uint32_t other) {
  const std::uint32_t wanted = other == kNone ? 0 : start_[other];
  if (start_[step] == wanted) return false;
  const bool changed = store_[start_[step]] != store_[wanted];
  start_[step] = wanted;
  return changed;
}

namespace {

// The last change of the semaphore to a fixed value before the wait, or none: its initial 0.
struct Base {
  const PostList* list = nullptr;
  const Post* post = nullptr;
  Clock after;  // of the post; empty: everything counts
  std::int64_t value = 0;
};

// The posts of a semaphore seen from a wait for "at least": down and up change places for "at
// most".
class Proof {
 public:
  Proof(const Semaphore& s, bool at_most, const Clock& known, const Clocks& clocks)
      : set_(s.set),
        raise_(at_most ? s.down : s.up),
        lower_(at_most ? s.up : s.down),
        sign_(at_most ? -1 : 1),
        known_(known),
        clocks_(clocks) {}

  // The facts that hold on every way to `value` or beyond, and the known ones.
  std::optional<Clock> at_least(std::int64_t value) {
    std::optional<Clock> common;
    for (const Base& base : bases()) {
      const std::optional<Clock> way = from(base, value - base.value);
      if (!way) continue;
      if (!common) {
        common = way;
      } else {
        for (std::size_t i = 0; i < way->size(); ++i)
          (*common)[i] = std::min((*common)[i], (*way)[i]);
      }
    }
    return common;
  }

 private:
  // Sets that can be the last one before the wait: no other is known to lie between. Of those that
  // are not known to have happened, only the first of each agent and value can matter.
  std::vector<Base> bases() const {
    std::vector<Base> found;
    std::vector<Base> latest;
    for (const PostList& list : set_) {
      const std::size_t next = list.first_after(known_[list.component]);
      if (next > 0) latest.push_back(base(list, list.posts[next - 1]));
      for (std::size_t i = next; i < list.posts.size(); ++i) {
        const bool seen = std::any_of(found.begin(), found.end(), [&](const Base& b) {
          return b.list == &list && b.value == sign_ * list.posts[i].amount;
        });
        if (!seen) found.push_back(base(list, list.posts[i]));
        if (i > next + kLookAhead) break;
      }
    }
    for (const Base& b : latest) {
      const bool over = std::any_of(latest.begin(), latest.end(), [&](const Base& other) {
        return other.list != b.list && other.after[b.list->component] >= b.post->number;
      });
      if (!over) found.push_back(b);
    }
    if (latest.empty()) found.push_back({});
    return found;
  }

  Base base(const PostList& list, const Post& post) const {
    return {&list, &post, clocks_.after(list, post), sign_ * post.amount};
  }

  // Numbers up to which a list's posts certainly came before the base.
  static std::uint32_t gone(const Base& base, const PostList& list) {
    return base.post == nullptr ? 0 : base.after[list.component];
  }

  // The sum that posts certainly take away between the base and the wait.
  std::int64_t lowered(const Base& base) const {
    std::int64_t sum = 0;
    for (const PostList& list : lower_) {
      const std::size_t end = list.first_after(known_[list.component]);
      std::size_t from = 0;
      if (base.post != nullptr) {
        const auto behind = [&](const Post& p) {
          return clocks_.after(list, p)[base.list->component] < base.post->number;
        };
        from = static_cast<std::size_t>(
            std::partition_point(list.posts.begin(),
                                 list.posts.begin() + static_cast<std::ptrdiff_t>(end), behind) -
            list.posts.begin());
      }
      if (from < end) sum += list.posts[end - 1].sum - (from == 0 ? 0 : list.posts[from - 1].sum);
    }
    return sum;
  }

  std::optional<Clock> from(const Base& base, std::int64_t value) const {
    Clock floor = known_;
    if (base.post != nullptr) join(floor, base.after);
    std::int64_t missing = value + lowered(base);
    for (const PostList& list : raise_) {
      missing -= list.sum(gone(base, list), known_[list.component]);
    }
    if (missing <= 0) return floor;
    return cheapest(base, floor, missing);
  }

  struct Candidate {
    Clock after;
    std::int64_t amount = 0;
  };

  // For every component on its own: how far it must have got so that the posts not held up reach
  // `missing`.
  std::optional<Clock> cheapest(const Base& base, const Clock& floor, std::int64_t missing) const {
    std::vector<Candidate> candidates;
    std::int64_t all = 0;
    for (const PostList& list : raise_) {
      std::int64_t sum = 0;
      std::size_t i = list.first_after(std::max(known_[list.component], gone(base, list)));
      const std::size_t first = i;
      const std::int64_t before = i == 0 ? 0 : list.posts[i - 1].sum;
      if (raise_.size() == 1) {  // the one that gets there says all that those before it say
        i = static_cast<std::size_t>(
            std::partition_point(list.posts.begin() + static_cast<std::ptrdiff_t>(first),
                                 list.posts.end(),
                                 [&](const Post& p) { return p.sum - before < missing; }) -
            list.posts.begin());
        if (i == list.posts.size()) return std::nullopt;
        Clock clock = floor;
        join(clock, clocks_.after(list, list.posts[i]));
        return clock;
      }
      for (; i < list.posts.size() && sum < missing; ++i) {
        candidates.push_back({clocks_.after(list, list.posts[i]), list.posts[i].amount});
        join(candidates.back().after, floor);
        sum += list.posts[i].amount;
      }
      all += sum;
    }
    if (all < missing) return std::nullopt;
    return quantile(candidates, floor, missing);
  }

  static Clock quantile(const std::vector<Candidate>& candidates, const Clock& floor,
                        std::int64_t missing) {
    Clock clock = floor;
    std::vector<std::pair<std::uint32_t, std::int64_t>> order(candidates.size());
    for (std::size_t c = 0; c < clock.size(); ++c) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        order[i] = {candidates[i].after[c], candidates[i].amount};
      }
      std::sort(order.begin(), order.end());
      std::int64_t sum = 0;
      for (const auto& [number, amount] : order) {
        sum += amount;
        if (sum < missing) continue;
        clock[c] = std::max(clock[c], number);
        break;
      }
    }
    return clock;
  }

  static constexpr std::size_t kLookAhead = 64;  // sets to look for other values in
  const std::vector<PostList>&set_, &raise_, &lower_;
  std::int64_t sign_;
  const Clock& known_;
  const Clocks& clocks_;
};

}  // namespace

bool holds(const isa::SemaphoreWait& wait, std::int64_t value) {
  using enum isa::SemaphoreWait::Compare;
  switch (wait.compare) {
    case kGe:
      return value >= wait.value;
    case kEq:
      return value == wait.value;
    case kLe:
      return value <= wait.value;
    case kGt:
      return value > wait.value;
    case kLt:
      return value < wait.value;
  }
  return false;
}

namespace {

// "At least" of a counter that one agent raises: its first posts that get there.
bool prove_simple(const Semaphore& semaphore, std::int64_t value, const Clocks& clocks,
                  Clock& known) {
  if (value <= 0 || semaphore.up.empty()) return false;
  const PostList& list = semaphore.up.front();
  const std::size_t at = list.first_to_reach(value);
  if (at == list.posts.size() || known[list.component] >= list.posts[at].number) return false;
  clocks.join_after(known, list, list.posts[at]);
  return true;
}

}  // namespace

bool prove(const Semaphore& semaphore, const isa::SemaphoreWait& wait, const Clocks& clocks,
           Clock& known) {
  using enum isa::SemaphoreWait::Compare;
  const std::int64_t value = wait.value;
  const bool up = wait.compare == kGe || wait.compare == kGt || wait.compare == kEq;
  const bool down = wait.compare == kLe || wait.compare == kLt || wait.compare == kEq;
  std::optional<Clock> least, most;
  if (up) {
    const std::int64_t bound = wait.compare == kGt ? value + 1 : value;
    if (!down && semaphore.simple()) return prove_simple(semaphore, bound, clocks, known);
    least = Proof(semaphore, false, known, clocks).at_least(bound);
    if (!least) return false;
  }
  if (down) {
    const std::int64_t bound = wait.compare == kLt ? value - 1 : value;
    most = Proof(semaphore, true, known, clocks).at_least(-bound);
    if (!most) return false;
  }
  const Clock before = known;
  if (least) join(known, *least);
  if (most) join(known, *most);
  return known != before;
}

}  // namespace nkisim::checks
