#include "models/ports.hpp"

#include <bit>

namespace nkisim::models {
namespace {

// fn(slot) of each bit, ascending.
template <typename Fn>
void for_slots(std::uint32_t wanted, const Fn& fn) {
  for (; wanted != 0; wanted &= wanted - 1) fn(static_cast<std::size_t>(std::countr_zero(wanted)));
}

}  // namespace

Ports::Ports(const std::vector<PortRule>& rules) : rules_(rules), held_(rules.size()) {
  for (const PortRule& rule : rules) engines_ |= rule.engines;
}

std::uint32_t Ports::slots(const PortRule& rule, Use use) {
  if (rule.space == isa::Space::kSbuf) return use.sbuf ? 1U : 0U;
  if (rule.per_bank) return use.psum_banks;
  return use.psum_banks != 0 ? 1U : 0U;
}

Ports::Grant Ports::free_at(isa::Engine engine, Use use, Fs at) const {
  Grant grant{.at = at};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if ((rules_[i].engines >> static_cast<unsigned>(engine) & 1U) == 0) continue;
    const std::uint32_t wanted = slots(rules_[i], use);
    for_slots(wanted, [&](std::size_t s) {
      const Slot& slot = held_[i][s];
      if (slot.holder != engine && slot.until > grant.at) grant = {slot.until, slot.holder};
    });
  }
  return grant;
}

void Ports::reserve(isa::Engine engine, Use use, Fs until) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if ((rules_[i].engines >> static_cast<unsigned>(engine) & 1U) == 0) continue;
    for_slots(slots(rules_[i], use), [&](std::size_t s) { held_[i][s] = {engine, until}; });
  }
}

}  // namespace nkisim::models
