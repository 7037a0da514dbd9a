// Implements hardware semaphores as counters that remember their latest values.
#include "models/core/semaphores.hpp"

#include <algorithm>
#include <iterator>

namespace nkisim::models {
namespace {

constexpr std::size_t kHistory = 64;

bool holds(isa::SemaphoreWait::Compare compare, std::int64_t value, std::int64_t bound) {
  using enum isa::SemaphoreWait::Compare;
  switch (compare) {
    case kGe:
      return value >= bound;
    case kEq:
      return value == bound;
    case kLe:
      return value <= bound;
    case kGt:
      return value > bound;
    case kLt:
      return value < bound;
  }
  return false;
}

std::int64_t updated(std::int64_t value, const isa::SemaphorePost& post) {
  using enum isa::SemaphorePost::Action;
  switch (post.action) {
    case kIncrement:
      return value + 1;
    case kDecrement:
      return value - 1;
    case kAdd:
      return value + post.value;
    case kSubtract:
      return value - post.value;
    case kSet:
      return post.value;
  }
  return value;
}

}  // namespace

std::int64_t SemaphoreCounters::value(int semaphore) const {
  const auto i = static_cast<std::size_t>(semaphore);
  return i >= histories_.size() || histories_[i].empty() ? 0 : histories_[i].back().value;
}

std::optional<SemaphoreChange> SemaphoreCounters::satisfied(const isa::SemaphoreWait& wait) const {
  if (!holds(wait.compare, value(wait.semaphore), wait.value)) return std::nullopt;
  const auto i = static_cast<std::size_t>(wait.semaphore);
  if (i >= histories_.size()) return SemaphoreChange{};
  const auto& history = histories_[i];
  const auto broken = std::find_if(history.rbegin(), history.rend(), [&](const SemaphoreChange& c) {
    return !holds(wait.compare, c.value, wait.value);
  });
  if (broken != history.rend()) return *broken.base();
  // It held after every change remembered; before the first the value was 0.
  return holds(wait.compare, 0, wait.value) || history.empty() ? SemaphoreChange{}
                                                               : history.front();
}

void SemaphoreCounters::update(const isa::SemaphorePost& post, const SemaphoreChange& by) {
  const auto i = static_cast<std::size_t>(post.semaphore);
  if (i >= histories_.size()) histories_.resize(i + 1);
  if (histories_[i].capacity() == 0) histories_[i].set_capacity(kHistory);
  SemaphoreChange change = by;
  change.value = updated(value(post.semaphore), post);
  histories_[i].push_back(change);
}

std::string describe(const isa::SemaphoreWait& wait, const isa::SemaphoreNames& names) {
  constexpr const char* kSigns[] = {">=", "==", "<=", ">", "<"};
  const auto name = names.find(wait.semaphore);
  return "S[" + std::to_string(wait.semaphore) + "]" +
         (name == names.end() ? "" : " (" + name->second + ")") +
         kSigns[static_cast<std::size_t>(wait.compare)] + std::to_string(wait.value);
}

}  // namespace nkisim::models
