// Runs one SystemC simulation, and then restores the global state of SystemC that it changed.
#include "models/sim_session.hpp"

#include <atomic>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

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

// Static members that only derived classes reach.
struct ReportCounts : sc_core::sc_report_handler {
  static unsigned& of(std::size_t severity) { return sev_call_count[severity]; }
};
struct LastProcess : sc_core::sc_process_b {
  static sc_core::sc_process_b*& get() { return m_last_created_process_p; }
};

// Stands at the front of the registry of modules until elaboration is over.
struct FrontModule : sc_core::sc_module {
  explicit FrontModule(const sc_core::sc_module_name& name) : sc_module(name) {}
};

void find_processes(const std::vector<sc_core::sc_object*>& objects,
                    std::vector<sc_core::sc_process_handle>& found) {
  for (sc_core::sc_object* object : objects) {
    if (sc_core::sc_process_handle process(object); process.valid()) found.push_back(process);
    find_processes(object->get_child_objects(), found);
  }
}

std::mutex only_one;
std::atomic<std::thread::id> session_thread;

}  // namespace

SimSession::ProcessLock::ProcessLock() {
  if (session_thread == std::this_thread::get_id()) {
    isa::fail(isa::Rule::nested_simulation,
              "a simulation is started within another one; start it when that one is over");
  }
  only_one.lock();
  session_thread = std::this_thread::get_id();
}

SimSession::ProcessLock::~ProcessLock() {
  session_thread = std::thread::id();
  only_one.unlock();
}

// A report that is thrown is not kept as the caller's last one.
SimSession::Globals::Globals()
    : context_(sc_core::sc_curr_simcontext),
      handler_(sc_core::sc_report_handler::set_handler(handle_report)),
      last_process_(LastProcess::get()) {
  for (std::size_t s = 0; s < kSeverities; ++s) {
    const auto severity = static_cast<sc_core::sc_severity>(s);
    actions_.at(s) = sc_core::sc_report_handler::set_actions(severity, sc_core::SC_THROW);
    counts_.at(s) = ReportCounts::of(s);
  }
}

SimSession::Globals::~Globals() {
  for (std::size_t s = 0; s < kSeverities; ++s) {
    sc_core::sc_report_handler::set_actions(static_cast<sc_core::sc_severity>(s), actions_.at(s));
    ReportCounts::of(s) = counts_.at(s);
  }
  LastProcess::get() = last_process_;
  sc_core::sc_report_handler::set_handler(handler_);
  sc_core::sc_curr_simcontext = context_;
}

SimSession::SimSession(bool many)
    : context_(std::make_unique<sc_core::sc_simcontext>()),
      clock_(std::make_unique<Clock>(*context_)) {
  sc_core::sc_curr_simcontext = context_.get();
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  if (!many) return;
  first_ = {std::make_unique<FrontModule>("front0"), std::make_unique<FrontModule>("front1")};
}

// Its context is the current one until it is gone.
SimSession::~SimSession() {
  for (auto& front : first_) front.reset();
  context_.reset();
}

bool SimSession::within_process() {
  return session_thread != std::this_thread::get_id() && sc_core::sc_curr_simcontext != nullptr &&
         sc_core::sc_get_current_process_b() != nullptr;
}

// The registry of modules looks from its front and fills a gap with its last module. With the front
// gone, the module constructed last is always found there.
void SimSession::elaborate() {
  if (std::exchange(elaborated_, true)) return;
  context_->initialize(true);
  for (auto& front : first_) front.reset();
}

// sc_start() has a static flag, which belongs to the host.
void SimSession::simulate(const sc_core::sc_time& span) {
  elaborate();
  if (runs_ahead_) clock_->run_ahead(now() + static_cast<Fs>(span.value()));
  context_->simulate(span);
  if (clock_->error()) std::rethrow_exception(clock_->error());
}

void SimSession::run() { simulate(time(std::numeric_limits<Fs>::max() - now())); }

// SystemC runs nothing at the last moment of the span.
void SimSession::run_until(Fs limit) {
  const Fs span = limit == kNever ? kNever : limit - now();
  if (span <= 0) return;
  simulate(time(span));
}

Fs SimSession::next() {
  if (!sc_core::sc_pending_activity()) return kNever;
  return now() + static_cast<Fs>(sc_core::sc_time_to_pending_activity().value());
}

// Else they would outlive their modules, as children of the context, whose list is searched for
// each. The last one is the first of SystemC's.
void SimSession::end_processes() {
  if (!sc_core::sc_is_running()) return;  // not started
  std::vector<sc_core::sc_process_handle> processes;
  find_processes(sc_core::sc_get_top_level_objects(), processes);
  for (; !processes.empty(); processes.pop_back()) processes.back().kill();
}

sc_core::sc_time SimSession::time(Fs fs) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(fs));
}

}  // namespace nkisim::models
