// Runs one SystemC simulation from elaboration to clean-up. Only this class touches the globals of
// SystemC.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <systemc>
#include <utility>

#include "models/clock.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// A simulation with a context of its own, at a resolution of 1 fs. While it lives it is SystemC's
/// current one; afterwards the caller's context, report handler, actions and counts are what they
/// were, so it may begin before, between and within the simulations of a host program. Declare it
/// before the modules it runs, so that they are destroyed first, and destroy those in the reverse
/// order of their construction: SystemC's registries find them at once then.
///
/// SystemC has one current context per process: a session of another thread waits until this one is
/// over, and a session within a session is an Error.
class SimSession {
 public:
  /// `many`: thousands of modules, which are worth the preparation for their end.
  explicit SimSession(bool many = false);
  ~SimSession();
  SimSession(const SimSession&) = delete;
  SimSession& operator=(const SimSession&) = delete;

  /// Ends the processes of a session when a block is left, before the modules are destroyed.
  class Ending {
   public:
    explicit Ending(SimSession& session) : session_(session) {}
    ~Ending() { session_.end_processes(); }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    SimSession& session_;
  };

  /// True within a process of a host's simulation, whose stack may be small.
  [[nodiscard]] static bool within_process();

  /// Processes may go on by themselves while no other is due (Clock::advance). Not for modules that
  /// ask SystemC for the time.
  void run_ahead() { runs_ahead_ = true; }
  /// Binds ports and checks them; run() does it where it was not done.
  void elaborate();
  /// Runs until no event is left; rethrows what a process passed to fail().
  void run();
  /// Runs what happens before `limit`, or before a process calls pause(); rethrows as run() does.
  void run_until(Fs limit);
  /// Ends run_until() when the present moment is over.
  static void pause() { sc_core::sc_pause(); }
  /// The time of the next event; kNever if none is left.
  [[nodiscard]] static Fs next();
  /// Ends the simulation: every process returns at once from now on.
  void fail(std::exception_ptr error) { clock_->fail(std::move(error)); }
  /// Ends the simulation early without an error.
  void stop() { clock_->stop(); }
  [[nodiscard]] bool stopped() const { return clock_->stopped(); }
  /// For the modules.
  [[nodiscard]] Clock& clock() { return *clock_; }
  [[nodiscard]] static Fs now() {
    return static_cast<Fs>(sc_core::sc_get_curr_simcontext()->time_stamp().value());
  }
  [[nodiscard]] static sc_core::sc_time time(Fs fs);

 private:
  class ProcessLock {
   public:
    ProcessLock();
    ~ProcessLock();
    ProcessLock(const ProcessLock&) = delete;
    ProcessLock& operator=(const ProcessLock&) = delete;
  };
  // Restores SystemC's global state, which is outside its contexts, for the caller.
  class Globals {
   public:
    Globals();
    ~Globals();
    Globals(const Globals&) = delete;
    Globals& operator=(const Globals&) = delete;

   private:
    static constexpr std::size_t kSeverities = sc_core::SC_MAX_SEVERITY;
    sc_core::sc_simcontext* context_;
    sc_core::sc_report_handler_proc handler_;
    sc_core::sc_process_b* last_process_;
    std::array<sc_core::sc_actions, kSeverities> actions_{};
    std::array<unsigned, kSeverities> counts_{};
  };
  void simulate(const sc_core::sc_time& span);
  void end_processes();

  ProcessLock lock_;
  Globals globals_;
  std::unique_ptr<sc_core::sc_simcontext> context_;
  std::unique_ptr<Clock> clock_;
  std::array<std::unique_ptr<sc_core::sc_module>, 2> first_;  // until elaboration
  bool elaborated_ = false, runs_ahead_ = false;
};

}  // namespace nkisim::models
