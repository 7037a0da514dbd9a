// Declares services that Linux and other systems implement apart, and what starts threads.
#pragma once

#include <csignal>
#include <cstdint>

namespace nkisim::isa::host {

/// The most memory that the control group of this process may have.
[[nodiscard]] std::int64_t group_memory_bytes();

/// The bytes that RLIMIT_DATA counts of this process; 0 where the system does not say.
[[nodiscard]] std::int64_t data_bytes();

/// Threads that are started while it lives take no signals: these are for the others.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace nkisim::isa::host
