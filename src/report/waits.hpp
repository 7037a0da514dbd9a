// Splits an instruction's wait before its start by cause: an earlier instruction, another core, a
// semaphore, a memory port or the engine's data path.
#pragma once

#include <algorithm>

#include "models/observer.hpp"

namespace nkisim {

enum class WaitFor : std::uint8_t { kProducer, kCore, kSemaphore, kPort, kDataPath };

/// fn(WaitFor, from, to) of the time between the moment at which the sequencer has issued the
/// instruction before and `start`, in the order of models::Wait. `meets`: the instruction waits for
/// the other core.
template <typename Fn>
void each_wait(const models::Wait& wait, models::Fs start, bool meets, Fn&& fn) {
  models::Fs from = std::min(wait.ready, start);
  const auto until = [&](models::Fs time, WaitFor what) {
    const models::Fs to = std::min(time, start);
    if (to <= from) return;
    fn(what, from, to);
    from = to;
  };
  if (wait.producer != models::kNoQueue) until(wait.producer_end, WaitFor::kProducer);
  until(wait.awake, meets ? WaitFor::kCore : WaitFor::kSemaphore);
  if (wait.port_holder != isa::Engine::kAny) until(wait.port_free, WaitFor::kPort);
  until(start, WaitFor::kDataPath);
}

}  // namespace nkisim
