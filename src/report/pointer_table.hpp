// Implements a hash table whose keys are addresses of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace nkisim {

/// A hash table in one piece, for look-ups by the million. No key is null; nothing is removed.
template <typename Value>
class PointerTable {
 public:
  explicit PointerTable(std::size_t expected = 0) {
    std::size_t size = kLeast;
    while (size < 2 * expected) size *= 2;
    slots_.resize(size);
  }
  /// The value of `key`, and whether it was added now as Value{}. Valid until the next call.
  std::pair<Value*, bool> find_or_add(const void* key) {
    if (2 * count_ >= slots_.size()) grow();
    Slot& slot = slot_of(key);
    const bool added = slot.key == nullptr;
    if (added) {
      slot.key = key;
      ++count_;
    }
    return {&slot.value, added};
  }
  /// Null: there is none.
  [[nodiscard]] const Value* find(const void* key) const {
    const Slot& slot = const_cast<PointerTable*>(this)->slot_of(key);
    return slot.key == nullptr ? nullptr : &slot.value;
  }
  template <typename Fn>
  void for_each(Fn&& fn) const {
    for (const Slot& slot : slots_) {
      if (slot.key != nullptr) fn(slot.value);
    }
  }

 private:
  static constexpr std::size_t kLeast = 1024;
  struct Slot {
    const void* key = nullptr;
    Value value{};
  };
  Slot& slot_of(const void* key) {
    const std::uint64_t spread = reinterpret_cast<std::uintptr_t>(key) * 0x9e3779b97f4a7c15U;
    std::size_t at = (spread >> 32U) & (slots_.size() - 1);
    while (slots_[at].key != nullptr && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.key != nullptr) slot_of(slot.key) = std::move(slot);
    }
  }
  std::vector<Slot> slots_;  // a power of two
  std::size_t count_ = 0;
};

}  // namespace nkisim
