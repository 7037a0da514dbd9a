// One SystemC simulation from elaboration to clean-up; the only place that touches its globals.
#pragma once

#include <exception>
#include <systemc>

#include "models/time.hpp"

namespace nkisim::models {

/// Declare it before the modules it runs, so that they are destroyed first. SystemC has one
/// simulation per process: a session of another thread waits until this one is over, and one within
/// it is an Error.
class SimSession {
 public:
  SimSession();
  ~SimSession();
  SimSession(const SimSession&) = delete;
  SimSession& operator=(const SimSession&) = delete;

  /// Runs until no event is left; rethrows what a process passed to fail().
  void run();
  /// Runs what happens before `limit`, or before a process calls pause(); rethrows as run() does.
  void run_until(Fs limit);
  /// Ends run_until() when the present moment is over.
  static void pause() { sc_core::sc_pause(); }
  /// When the next event is; kNever if none is left.
  [[nodiscard]] static Fs next();
  /// Ends the simulation: every process returns at once from now on.
  void fail(std::exception_ptr error);
  /// Ends the simulation early without an error.
  void stop() { stopped_ = true; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] static Fs now() {
    return static_cast<Fs>(sc_core::sc_get_curr_simcontext()->time_stamp().value());
  }
  [[nodiscard]] static sc_core::sc_time time(Fs fs);

 private:
  class Turn {
   public:
    Turn();
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
  };
  Turn turn_;
  std::exception_ptr error_;
  bool stopped_ = false;
};

}  // namespace nkisim::models
