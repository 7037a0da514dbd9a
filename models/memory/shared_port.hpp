// Models a memory port that several engines share, one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/config.hpp"

namespace nkisim::models {

/// The time when a shared memory may be used, and the engine that delays it.
struct Grant {
  Fs at = 0;
  isa::Engine holder = isa::Engine::kAny;  // kAny: free
};

/// The engine that streams through one port, and until when. Passive: probe() decides nothing,
/// reserve() does.
class SharedPort {
 public:
  explicit SharedPort(const PortRule& rule) : engines_(rule.engines) {}
  [[nodiscard]] bool of(isa::Engine engine) const {
    return (engines_ >> static_cast<unsigned>(engine) & 1U) != 0;
  }
  /// Moves `grant` to when `engine` may use the port, if that is later.
  void probe(isa::Engine engine, Grant& grant) const {
    if (of(engine) && holder_ != engine && until_ > grant.at) grant = {until_, holder_};
  }
  void reserve(isa::Engine engine, Fs until) {
    if (!of(engine)) return;
    holder_ = engine;
    until_ = until;
  }
  /// The engine that used it last, and until when.
  [[nodiscard]] isa::Engine holder() const { return holder_; }
  [[nodiscard]] Fs until() const { return until_; }

 private:
  std::uint32_t engines_;
  isa::Engine holder_ = isa::Engine::kAny;
  Fs until_ = 0;
};

/// True if `engine` shares one of these ports.
[[nodiscard]] inline bool shared_by(const std::vector<SharedPort>& ports, isa::Engine engine) {
  return std::any_of(ports.begin(), ports.end(),
                     [engine](const SharedPort& port) { return port.of(engine); });
}

}  // namespace nkisim::models
