// Implements clocks in femtoseconds, also where a surrounding SystemC design has a coarser
// resolution.
#include "models/clock.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "isa/base/error.hpp"

namespace nkisim::models {
namespace {

constexpr Fs kLongestTick = 1000;  // so that an event is less than 1 ps late

sc_core::sc_time ticks_of(Fs ticks) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(ticks));
}

}  // namespace

// Only a coarse clock looks for alarms, but its tick is not known before elaboration ends.
Alarm::Alarm(Clock& clock, const char* name) : clock_(clock), event_(name) {
  clock_.alarms_.push_back(this);
}

Alarm::~Alarm() { std::erase(clock_.alarms_, this); }

void Alarm::ring() {
  at_ = kNever;
  clock_.others_ = 0;
  event_.notify();
}

void Alarm::ring_next() {
  at_ = kNever;
  clock_.others_ = 0;
  clock_.last_next_ = clock_.deltas();
  event_.notify(sc_core::SC_ZERO_TIME);
}

void Alarm::ring_at(Fs time) {
  clock_.others_ = 0;
  if (clock_.tick_ == 1) {
    event_.notify(ticks_of(time - clock_.ticks()));
  } else if (time < at_) {
    at_ = time;
    clock_.set(time);
  }
}

void Alarm::cancel() {
  at_ = kNever;
  clock_.others_ = 0;
  event_.cancel();
}

void Clock::fail(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  stopped_ = true;
}

// True if nothing else is due by `time`.
bool Clock::find_others(Fs time) {
  const std::uint64_t free = sc_core::sc_time_to_pending_activity(&context_).value();
  others_ = plus(ticks(), static_cast<Fs>(std::min<std::uint64_t>(free, kNever)));
  return time < others_;
}

HostClock::HostClock(const sc_core::sc_module_name& name)
    : sc_module(name), Clock(*sc_core::sc_get_curr_simcontext()) {
  SC_HAS_PROCESS(HostClock);
  SC_METHOD(ring_due);
  sensitive << due_;
  dont_initialize();
}

void HostClock::end_of_elaboration() {
  const sc_core::sc_time resolution = sc_core::sc_get_time_resolution();
  const double fs = resolution.to_seconds() * 1e15;
  tick_ = std::llround(fs);
  if (tick_ >= 1 && tick_ <= kLongestTick) return;
  tick_ = 1;
  isa::fail(isa::Rule::systemc, "SystemC's time resolution", resolution.to_string(),
            "1 fs to 1 ps, for a chip in the same context");
}

// A notification to come that is earlier stays.
void HostClock::set(Fs time) {
  due_.notify(ticks_of(std::max<Fs>(0, (time + tick_ - 1) / tick_ - ticks())));
}

// A femtosecond begins when everything of the one before is over, with what ring_next() began.
void HostClock::ring_due() {
  if (stopped()) return;
  if (deltas() < last_next_ + 2) {
    due_.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  Fs first = kNever;
  for (const Alarm* alarm : alarms_) first = std::min(first, alarm->at_);
  if (first == kNever) return;
  if (first <= ticks() * tick_) {
    now_ = first;
    for (Alarm* alarm : alarms_) {
      if (alarm->at_ == first) alarm->ring();
    }
    due_.notify(sc_core::SC_ZERO_TIME);
  } else {
    set(first);
  }
}

}  // namespace nkisim::models
