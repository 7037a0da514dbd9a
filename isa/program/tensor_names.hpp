// Declares TensorNames: finds a program's tensors by their names.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "isa/base/tensor.hpp"

namespace nkisim::isa {

/// A hash table of the tensors' numbers, with their names where the tensors are: 8 to 16 bytes
/// each.
class TensorNames {
 public:
  explicit TensorNames(const std::deque<Tensor>& tensors) : tensors_(tensors) {}
  /// The number of the tensor of this name; null: there is none. Good until one is added.
  [[nodiscard]] const std::uint32_t* find(std::string_view name) const {
    if (slots_.empty()) return nullptr;
    const std::uint32_t& slot = slots_[place(name)];
    return slot == kFree ? nullptr : &slot;
  }
  /// Adds tensor `id`; false: another has its name.
  bool add(std::uint32_t id) {
    if (2 * (count_ + 1) > slots_.size()) widen();
    std::uint32_t& slot = slots_[place(tensors_[id].name)];
    if (slot != kFree) return false;
    slot = id;
    ++count_;
    return true;
  }
  /// Finds the tensors as they are now.
  void assign() {
    slots_.assign(slots_.size(), kFree);
    count_ = 0;
    for (std::uint32_t id = 0; id < tensors_.size(); ++id) add(id);
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  // The slot that has the name, or will have it.
  [[nodiscard]] std::size_t place(std::string_view name) const {
    std::size_t at = std::hash<std::string_view>()(name) & (slots_.size() - 1);
    while (slots_[at] != kFree && tensors_[slots_[at]].name != name) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  void widen() {
    constexpr std::size_t kLeast = 64;
    const std::vector<std::uint32_t> old = std::move(slots_);
    slots_.assign(old.empty() ? kLeast : 2 * old.size(), kFree);
    for (const std::uint32_t id : old) {
      if (id != kFree) slots_[place(tensors_[id].name)] = id;
    }
  }

  const std::deque<Tensor>& tensors_;
  std::vector<std::uint32_t> slots_;  // open addressing, at most half full
  std::size_t count_ = 0;
};

}  // namespace nkisim::isa
