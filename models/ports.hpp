// Memory ports that engines cannot use at the same time.
#pragma once

#include <array>
#include <vector>

#include "models/config.hpp"

namespace nkisim::models {

/// Who streams through which memory until when. Probe with free_at, then reserve.
class Ports {
 public:
  explicit Ports(const std::vector<PortRule>& rules);
  /// What a part uses: SBUF or not, and a mask of PSUM banks.
  struct Use {
    bool sbuf = false;
    std::uint32_t psum_banks = 0;
  };
  struct Grant {
    Fs at = 0;
    isa::Engine holder = isa::Engine::kAny;  // who delayed it
  };
  /// Earliest time from `at` when `engine` may use `use`.
  [[nodiscard]] Grant free_at(isa::Engine engine, Use use, Fs at) const;
  void reserve(isa::Engine engine, Use use, Fs until);
  [[nodiscard]] bool concerns(isa::Engine engine) const {
    return (engines_ >> static_cast<unsigned>(engine) & 1U) != 0;
  }

 private:
  static constexpr std::size_t kSlots = 8;
  struct Slot {
    isa::Engine holder = isa::Engine::kAny;
    Fs until = 0;
  };
  [[nodiscard]] static std::uint32_t slots(const PortRule& rule, Use use);
  const std::vector<PortRule>& rules_;
  std::vector<std::array<Slot, kSlots>> held_;  // per rule; whole memories use slot 0
  std::uint32_t engines_ = 0;
};

}  // namespace nkisim::models
