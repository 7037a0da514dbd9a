// Watches in a thread the memory of this process, and limits its growth.

#include "isa/host/memory_bound.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "isa/host/host.hpp"
#include "isa/host/posix.hpp"

namespace nkisim::isa::host {
namespace {
namespace of_bound {

// NKISIM_MEMORY_PERCENT, above 0 and up to 100, or 80.
double percent() {
  const char* text = std::getenv("NKISIM_MEMORY_PERCENT");
  const double given = text == nullptr ? 0 : std::strtod(text, nullptr);
  return given > 0 && given <= 100 ? given : 80;
}

// The first exception of a thread takes memory of its own: while there is some.
void be_ready_to_throw() {
  try {
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
}

constexpr std::chrono::milliseconds kEvery{20};
constexpr std::int64_t kSlack = 8;  // the eighth part more before the system refuses
constexpr std::size_t kStackBytes = std::size_t{64} << 10U;
constexpr unsigned kCalls = 1024;  // whoever asks so often looks for itself: the thread may wait

// The state of one process; a fork's copy is its parent's. It lives as long as its thread, for
// ever.
struct State {
  pid_t process = getpid();
  double percent = of_bound::percent();
  std::int64_t most =
      static_cast<std::int64_t>(static_cast<double>(memory_bytes()) / 100 * percent);
  std::mutex mutex;
  std::condition_variable changed;
  int users = 0;
  bool asleep = false;  // until there are users
  std::atomic<bool> reached = false;
  std::atomic<int> times = 0;  // that it was
  rlim_t before = RLIM_INFINITY;
  bool lowered = false;
};

std::atomic<State*> current = nullptr;
std::atomic<bool> off = false;

// Code that looks at memory_bound_reached() ends by itself; the system refuses the rest a little
// later.
void refuse_more(State& state) {
  rlimit limit{};
  const std::int64_t now = data_bytes();
  if (now == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  state.before = limit.rlim_cur;
  if (static_cast<rlim_t>(now) >= limit.rlim_cur) return;
  limit.rlim_cur = static_cast<rlim_t>(now);
  state.lowered = setrlimit(RLIMIT_DATA, &limit) == 0;
}

void allow_again(State& state) {
  state.reached = false;
  rlimit limit{};
  if (!state.lowered || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = state.before;
  setrlimit(RLIMIT_DATA, &limit);
  state.lowered = false;
}

void mark_if_reached(State& state, std::int64_t now) {
  if (state.reached || now <= state.most) return;
  state.reached = true;
  ++state.times;
}

// Looks every 20 ms, and goes on for a while after the last user: a short run that follows another
// one does not wait for this thread to wake.
[[noreturn]] void look(State& state) {
  constexpr int kIdle = 50;  // looks without a user before it sleeps
  std::unique_lock lock(state.mutex);
  while (true) {
    state.asleep = true;
    state.changed.wait(lock, [&] { return state.users > 0; });
    state.asleep = false;
    for (int idle = 0; idle < kIdle; ++idle) {
      if (state.users > 0) {
        idle = 0;
        const std::int64_t now = resident_bytes();
        mark_if_reached(state, now);
        if (!state.lowered && now > state.most + state.most / kSlack) refuse_more(state);
        if (state.reached && now < state.most / 100 * 95) allow_again(state);
      }
      lock.unlock();
      std::this_thread::sleep_for(kEvery);
      lock.lock();
    }
  }
}

State& start() {
  auto* state = new State;  // NOLINT(cppcoreguidelines-owning-memory): its thread has it
  const WithoutSignals starting;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const auto run = [](void* given) -> void* { look(*static_cast<State*>(given)); };
  const bool started = pthread_create(&thread, &small, run, state) == 0;
  pthread_attr_destroy(&small);
  if (!started) off = true;
  current = state;
  return *state;
}

}  // namespace of_bound
}  // namespace

MemoryBound::MemoryBound() : state_(nullptr) {
  using of_bound::State;
  static const bool can_look = resident_bytes() != 0;
  if (of_bound::off || !can_look) return;
  thread_local bool ready = false;
  if (!ready) of_bound::be_ready_to_throw();
  ready = true;
  static std::mutex starting;
  const std::scoped_lock one(starting);
  State* state = of_bound::current;
  if (state == nullptr || state->process != getpid()) state = &of_bound::start();
  const std::scoped_lock lock(state->mutex);
  ++state->users;
  before_ = state->times;
  if (state->asleep) state->changed.notify_one();
  state_ = state;
}

MemoryBound::~MemoryBound() {
  auto* state = static_cast<of_bound::State*>(state_);
  if (state == nullptr || state->process != getpid()) return;
  const std::scoped_lock lock(state->mutex);
  if (--state->users > 0) return;
  if (state->reached) of_bound::allow_again(*state);
}

bool memory_bound_reached() {
  of_bound::State* state = of_bound::current;
  if (state == nullptr) return false;
  thread_local unsigned calls = 0;
  if (++calls % of_bound::kCalls == 0) {
    const std::scoped_lock lock(state->mutex);
    if (state->users > 0) of_bound::mark_if_reached(*state, resident_bytes());
  }
  return state->reached;
}

std::string MemoryBound::reached() const {
  const auto* state = static_cast<const of_bound::State*>(state_);
  if (state == nullptr || state->times == before_) return "";
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(),
      "more than %.1f GB, which is %.3g %% of the memory that this machine or control group "
      "has",
      static_cast<double>(state->most) / 1e9, state->percent);
  return text.data();
}

void without_memory_bounds() { of_bound::off = true; }

}  // namespace nkisim::isa::host
