// Installs handlers for Ctrl-C and SIGTERM during a long command, and restores the earlier ones.

#include "src/cli/interrupt.hpp"

#include <unistd.h>

#include "src/cli/command.hpp"

namespace nkisim::cli {
namespace {

volatile std::sig_atomic_t recorded = 0;

void note(int signal) { recorded = signal; }

void end(int signal) { _exit(kSignalled + signal); }

}  // namespace

Interrupts::Interrupts() {
  recorded = 0;
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

int Interrupts::signal() { return recorded; }

void end_on_interrupt() {
  if (std::signal(SIGINT, end) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
}

}  // namespace nkisim::cli
