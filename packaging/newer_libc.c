// Supplies functions that a newer static libstdc++ needs and the oldest supported glibc lacks.
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

// glibc 2.32: whether the process has one thread. "No" is always a safe answer: counters are atomic.
char __libc_single_threaded = 0;

// glibc 2.36, behind std::random_device.
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}
