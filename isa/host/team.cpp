// Implements a team of threads by one number that says what is to do:
//
//   the caller writes it: a new round, the count of its parts, none of them taken
//   everybody takes a part by increasing it, as long as there is one
//   the caller leaves when all are done; a member looks for the next round a while before it sleeps
#include "isa/host/team.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "isa/host/host.hpp"
#include "isa/host/posix.hpp"

namespace nkisim::isa::host {
namespace {
namespace of_team {

constexpr std::size_t kMost = 8;                 // a product has no more parts that are worth one
constexpr std::chrono::microseconds kLooks{30};  // before it sleeps: a product takes about 100

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// It lives as long as its threads, for ever; a fork's copy has none.
class Team {
 public:
  explicit Team(int size) : size_(size) {
#ifndef __EMSCRIPTEN__
    const WithoutSignals starting;
    try {
      for (int i = 1; i < size; ++i) std::thread([this] { live(); }).detach();
    } catch (const std::system_error&) {  // fewer, then
    }
#endif
  }
  [[nodiscard]] int size() const { return getpid() == process_ ? size_ : 1; }

  void run(int count, const std::function<void(int)>& part) {
    const std::unique_lock alone(caller_, std::try_to_lock);
    if (!alone.owns_lock() || size() == 1) {
      for (int i = 0; i < count; ++i) part(i);
      return;
    }
    part_ = &part;
    left_ = count;
    const std::uint64_t round = (state_.load() >> kRoundShift) + 1;
    state_ = round << kRoundShift | static_cast<std::uint64_t>(count) << kCountShift;
    if (asleep_ > 0) state_.notify_all();
    while (take()) {
    }
    while (left_ > 0) pause();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr unsigned kCountShift = 16, kRoundShift = 32;

  // Does one part; false if none is left. While one is taken and not done, the round lasts.
  bool take() {
    std::uint64_t state = state_;
    do {
      if ((state & 0xffff) >= (state >> kCountShift & 0xffff)) return false;
    } while (!state_.compare_exchange_weak(state, state + 1));
    try {
      (*part_)(static_cast<int>(state & 0xffff));
    } catch (...) {
      const std::scoped_lock lock(errors_);
      error_ = std::current_exception();
    }
    --left_;
    return true;
  }

  [[noreturn]] void live() {
    while (true) {
      const std::uint64_t seen = state_;
      if (take()) continue;
      const auto until = std::chrono::steady_clock::now() + kLooks;
      while (state_ >> kRoundShift == seen >> kRoundShift &&
             std::chrono::steady_clock::now() < until) {
        pause();
      }
      ++asleep_;
      for (std::uint64_t now = state_; now >> kRoundShift == seen >> kRoundShift; now = state_) {
        state_.wait(now);
      }
      --asleep_;
    }
  }

  const int size_;
  const pid_t process_ = getpid();
  std::mutex caller_;
  const std::function<void(int)>* part_ = nullptr;
  std::atomic<std::uint64_t> state_ = 0;  // round, count, taken
  std::atomic<int> left_ = 0;             // not done
  std::atomic<int> asleep_ = 0;
  std::mutex errors_;
  std::exception_ptr error_;
};

Team& team() {  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  static auto* const made = new Team(static_cast<int>(std::min(processors(), kMost)));
  return *made;
}

}  // namespace of_team
}  // namespace

int team_size() { return of_team::team().size(); }

void in_team(int count, const std::function<void(int)>& part) { of_team::team().run(count, part); }

}  // namespace nkisim::isa::host
