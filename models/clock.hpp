// Gives modules time and alarms in femtoseconds, in a simulation of their own or within another
// SystemC design (a host).
#pragma once

#include <algorithm>
#include <exception>
#include <systemc>
#include <vector>

#include "models/time.hpp"

namespace nkisim::models {

class Clock;

/// An event that rings at a femtosecond; an sc_event at SystemC's resolution is what it notifies.
class Alarm {
 public:
  Alarm(Clock& clock, const char* name);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  /// At once. This and ring_next() take the place of a ring_at() to come.
  void ring();
  /// In the next delta cycle.
  void ring_next();
  /// At `time`, now or later, unless it rings before.
  void ring_at(Fs time);
  void cancel();
  [[nodiscard]] bool triggered() const { return event_.triggered(); }
  /// For the sensitivity of a process.
  [[nodiscard]] const sc_core::sc_event& event() const { return event_; }

 private:
  friend class HostClock;
  Clock& clock_;
  sc_core::sc_event event_;
  Fs at_ = kNever;  // at a coarse resolution: when it is to ring
};

/// Time and end of the modules' simulation. At SystemC's resolution of 1 fs its time is theirs.
class Clock {
 public:
  explicit Clock(sc_core::sc_simcontext& context) : context_(context) {}
  virtual ~Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  [[nodiscard]] Fs now() const { return tick_ == 1 ? std::max(ticks(), now_) : now_; }
  /// The moment of SystemC's present tick, which is now() or up to a tick later, and a span of it.
  [[nodiscard]] Fs host_now() const { return tick_ == 1 ? now() : ticks() * tick_; }
  /// Temporal decoupling without an error: goes on to `time` within the process that calls, and
  /// says true, if no other process is due by then. SystemC's own time follows with its next event.
  [[nodiscard]] bool advance(Fs time) {
    if (time >= limit_ || (time >= others_ && !find_others(time))) return false;
    now_ = time;
    return true;
  }
  /// Lets advance() go on to what is before `limit`; never, unless this is called.
  void run_ahead(Fs limit) { limit_ = limit; }
  [[nodiscard]] Fs of(const sc_core::sc_time& span) const {
    return static_cast<Fs>(span.value()) * tick_;
  }
  /// Ends the simulation: every process of the modules returns at once from now on.
  void fail(std::exception_ptr error);
  /// The same without an error.
  void stop() { stopped_ = true; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }
  /// A process has nothing to do any more, unless another wakes it.
  virtual void quiet() {}

 protected:
  friend class Alarm;
  /// Alarms have changed; at a coarse resolution alone.
  virtual void set(Fs /*time*/) {}
  [[nodiscard]] Fs ticks() const { return static_cast<Fs>(context_.time_stamp().value()); }
  [[nodiscard]] static std::int64_t deltas() {
    return static_cast<std::int64_t>(sc_core::sc_delta_count());
  }
  Fs tick_ = 1;                  // of SystemC, in femtoseconds
  Fs now_ = 0;                   // where a tick is longer, or SystemC's time is behind
  std::int64_t last_next_ = -2;  // delta cycle of the last ring_next()
  std::vector<Alarm*> alarms_;

 private:
  [[nodiscard]] bool find_others(Fs time);
  sc_core::sc_simcontext& context_;
  Fs limit_ = 0;
  Fs others_ = 0;  // before it no other process is due; 0: not asked since an alarm was changed
  std::exception_ptr error_;
  bool stopped_ = false;
};

/// The clock of modules in a host's context. Where a tick of SystemC is longer than 1 fs it keeps
/// femtoseconds of its own: what is due by a tick happens at that tick, one femtosecond after the
/// other, each in delta cycles of its own. So times do not depend on the host's resolution.
class HostClock : public sc_core::sc_module, public Clock {
 public:
  [[nodiscard]] const char* kind() const override { return "HostClock"; }
  explicit HostClock(const sc_core::sc_module_name& name);
  void quiet() override { quiet_.notify(sc_core::SC_ZERO_TIME); }
  /// Notified when a process was quiet.
  [[nodiscard]] const sc_core::sc_event& quiet_event() const { return quiet_; }

 private:
  /// Throws Error if the resolution is coarser than 1 ps, or finer than 1 fs.
  void end_of_elaboration() override;
  void set(Fs time) override;
  void ring_due();
  sc_core::sc_event due_{"due"}, quiet_{"quiet"};
};

}  // namespace nkisim::models
