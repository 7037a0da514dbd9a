#include "models/sim_session.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "isa/base/error.hpp"

// libsystemc.so wants this symbol of every program, which never calls it. Weak: a program of
// SystemC's own kind has one.
extern "C" __attribute__((weak, visibility("default"))) int sc_main(int, char*[]) { return 0; }

namespace nkisim::models {
namespace {

// Reports become errors; notes are dropped, because a library does not print.
void handle_report(const sc_core::sc_report& report, const sc_core::sc_actions&) {
  if (report.get_severity() < sc_core::SC_ERROR) return;
  throw isa::Error(isa::Rule::systemc, std::string("SystemC: ") + report.what());
}

std::mutex only_one;
std::atomic<std::thread::id> session_thread;

}  // namespace

SimSession::Turn::Turn() {
  if (session_thread == std::this_thread::get_id()) {
    isa::fail(isa::Rule::nested_simulation,
              "a simulation is started within another one; start it when that one is over");
  }
  only_one.lock();
  session_thread = std::this_thread::get_id();
}

SimSession::Turn::~Turn() {
  session_thread = std::thread::id();
  only_one.unlock();
}

SimSession::SimSession() {
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
  sc_core::sc_report_handler::set_handler(handle_report);
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
}

SimSession::~SimSession() { sc_core::sc_get_curr_simcontext()->reset(); }

void SimSession::run() {
  sc_core::sc_start();
  if (error_) std::rethrow_exception(error_);
}

// Of its last moment SystemC runs nothing.
void SimSession::run_until(Fs limit) {
  const Fs span = limit == kNever ? kNever : limit - now();
  if (span <= 0) return;
  sc_core::sc_start(time(span), sc_core::SC_EXIT_ON_STARVATION);
  if (error_) std::rethrow_exception(error_);
}

Fs SimSession::next() {
  if (!sc_core::sc_pending_activity()) return kNever;
  return now() + static_cast<Fs>(sc_core::sc_time_to_pending_activity().value());
}

void SimSession::fail(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  stopped_ = true;
}

sc_core::sc_time SimSession::time(Fs fs) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(fs));
}

}  // namespace nkisim::models
