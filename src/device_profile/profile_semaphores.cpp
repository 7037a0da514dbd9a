// Finds which semaphore waits of a profiled kernel must change for it to run without the code that
// ran around it on the device.

#include "src/device_profile/profile_semaphores.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

namespace nkisim {
namespace {

using isa::SemaphorePost;
using isa::SemaphoreWait;
using Key = std::pair<int, int>;  // core, semaphore

bool holds(const SemaphoreWait& wait, std::int64_t value) {
  switch (wait.compare) {
    case SemaphoreWait::Compare::kGe:
      return value >= wait.value;
    case SemaphoreWait::Compare::kEq:
      return value == wait.value;
    case SemaphoreWait::Compare::kLe:
      return value <= wait.value;
    case SemaphoreWait::Compare::kGt:
      return value > wait.value;
    case SemaphoreWait::Compare::kLt:
      return value < wait.value;
  }
  return true;
}

std::int64_t after(const SemaphorePost& post, std::int64_t value) {
  switch (post.action) {
    case SemaphorePost::Action::kIncrement:
      return value + 1;
    case SemaphorePost::Action::kDecrement:
      return value - 1;
    case SemaphorePost::Action::kAdd:
      return value + post.value;
    case SemaphorePost::Action::kSubtract:
      return value - post.value;
    case SemaphorePost::Action::kSet:
      return post.value;
  }
  return value;
}

std::string describe(const SemaphoreWait& wait) {
  constexpr std::array<std::string_view, 5> kNames = {">=", "==", "<=", ">", "<"};
  return "S[" + std::to_string(wait.semaphore) + "]" +
         std::string(kNames.at(static_cast<std::size_t>(wait.compare))) +
         std::to_string(wait.value);
}

// Value of each semaphore when the kernel starts, as far as the profile recorded changes.
std::map<Key, std::int64_t> values_at_start(const HwProfile& profile, double start) {
  std::map<Key, std::pair<double, std::int64_t>> last;
  for (const HwSemaphoreUpdate& u : profile.semaphores) {
    if (u.core < 0 || u.time >= start) continue;
    auto& entry = last[{u.core, u.semaphore}];
    if (u.time >= entry.first) entry = {u.time, u.value};
  }
  std::map<Key, std::int64_t> values;
  for (const auto& [key, entry] : last) {
    if (entry.second != 0) values[key] = entry.second;
  }
  return values;
}

// Runs the engines against the semaphores alone, without time.
class DryRun {
 public:
  DryRun(const ProfileBody& body, const std::vector<LinkedDma>& dma, std::vector<isa::Sync>& sync)
      : body_(body), dma_(dma), sync_(sync) {
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const HwInstruction& inst = *body.instructions[i].inst;
      engines_[{inst.core, isa::engine_of(inst.unit)}].push_back(i);
    }
  }

  /// Drops the waits that can never be met, earliest first. Returns their descriptions.
  std::vector<std::string> drop_unmet() {
    std::vector<std::string> dropped;
    for (;;) {
      while (advance()) {
      }
      const std::size_t stuck = first_stuck();
      if (stuck == sync_.size()) return dropped;
      auto& waits = sync_[stuck].waits;
      for (const SemaphoreWait& w : waits) {
        if (!met(stuck, w)) dropped.push_back(describe(w));
      }
      waits.erase(std::remove_if(waits.begin(), waits.end(),
                                 [&](const SemaphoreWait& w) { return !met(stuck, w); }),
                  waits.end());
    }
  }

 private:
  [[nodiscard]] int core(std::size_t i) const { return body_.instructions[i].inst->core; }
  [[nodiscard]] bool met(std::size_t i, const SemaphoreWait& w) const {
    const auto it = values_.find({core(i), w.semaphore});
    return holds(w, it == values_.end() ? 0 : it->second);
  }
  bool advance() {
    bool any = false;
    for (auto& [engine, queue] : engines_) {
      while (!queue.empty() && run(queue.front())) {
        queue.pop_front();
        any = true;
      }
    }
    return any;
  }
  bool run(std::size_t i) {
    const isa::Sync& s = sync_[i];
    if (!std::all_of(s.waits.begin(), s.waits.end(), [&](const auto& w) { return met(i, w); })) {
      return false;
    }
    for (const SemaphorePost& p : s.posts) {
      auto& value = values_[{core(i), p.semaphore}];
      value = after(p, value);
    }
    if (dma_[i].semaphore >= 0) values_[{core(i), dma_[i].semaphore}] += dma_[i].increment;
    return true;
  }
  [[nodiscard]] std::size_t first_stuck() const {
    std::size_t first = sync_.size();
    for (const auto& [engine, queue] : engines_) {
      if (!queue.empty()) first = std::min(first, queue.front());
    }
    return first;
  }

  const ProfileBody& body_;
  const std::vector<LinkedDma>& dma_;
  std::vector<isa::Sync>& sync_;
  std::map<std::pair<int, isa::Engine>, std::deque<std::size_t>> engines_;
  std::map<Key, std::int64_t> values_;
};

std::set<Key> semaphores_set(const ProfileBody& body) {
  std::set<Key> out;
  for (const BodyInstruction& b : body.instructions) {
    for (const ProfilePost& p : b.operands.posts) {
      if (p.post.action == SemaphorePost::Action::kSet) {
        out.insert({b.inst->core, p.post.semaphore});
      }
    }
  }
  return out;
}

}  // namespace

std::vector<isa::Sync> kernel_semaphores(const HwProfile& profile, const ProfileBody& body,
                                         const std::vector<LinkedDma>& dma,
                                         std::vector<std::string>& warnings) {
  auto base = values_at_start(profile, body.start);
  for (const Key& key : semaphores_set(body)) base.erase(key);
  std::vector<isa::Sync> sync(body.instructions.size());
  std::size_t runtime = 0;
  std::set<Key> shifted;
  for (std::size_t i = 0; i < sync.size(); ++i) {
    const BodyInstruction& b = body.instructions[i];
    runtime += b.operands.events ? 1 : 0;
    for (const ProfileWait& w : b.operands.waits) {
      if (w.runtime) {
        ++runtime;
        continue;
      }
      SemaphoreWait wait = w.wait;
      const auto it = base.find({b.inst->core, wait.semaphore});
      if (it != base.end()) {
        wait.value -= static_cast<std::int32_t>(it->second);
        shifted.insert(it->first);
      }
      sync[i].waits.push_back(wait);
    }
    for (const ProfilePost& p : b.operands.posts) {
      if (p.runtime) {
        ++runtime;
      } else {
        sync[i].posts.push_back(p.post);
      }
    }
  }
  if (runtime > 0) {
    warnings.push_back(
        std::to_string(runtime) +
        " waits and updates of the runtime's own semaphores and events are left out");
  }
  for (const Key& key : shifted) {
    warnings.push_back("S[" + std::to_string(key.second) + "] starts at " +
                       std::to_string(base[key]) + ": taken off the kernel's waits");
  }
  for (const std::string& wait : DryRun(body, dma, sync).drop_unmet()) {
    warnings.push_back("wait " + wait + " is dropped: nothing in the kernel raises it so far");
  }
  return sync;
}

}  // namespace nkisim
