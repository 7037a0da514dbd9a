// Provides a small SystemC design (a host) into which tests put our model.
#pragma once

#include <memory>
#include <systemc>

namespace nkisim::test {

/// The context and resolution of a host's program. Declared before its modules.
class Host {
 public:
  explicit Host(double resolution_fs)
      : before_(sc_core::sc_curr_simcontext), context_(std::make_unique<sc_core::sc_simcontext>()) {
    sc_core::sc_curr_simcontext = context_.get();
    sc_core::sc_set_time_resolution(resolution_fs, sc_core::SC_FS);
  }
  ~Host() {
    context_.reset();
    sc_core::sc_curr_simcontext = before_;
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  // As sc_start() does, which begins but one context of a process.
  void run(const sc_core::sc_time& span) {
    context_->initialize(true);
    context_->simulate(span);
  }
  void run() { run(sc_core::sc_time(10, sc_core::SC_MS)); }

 private:
  sc_core::sc_simcontext* before_;
  std::unique_ptr<sc_core::sc_simcontext> context_;
};

}  // namespace nkisim::test
