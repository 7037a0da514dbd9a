// Provides a first-in, first-out queue that grows, in a ring of a power of two.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace nkisim::models {

/// First in, first out, indexable from the oldest. References are invalidated by push_back().
template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) { return items_[(first_ + i) & mask_]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return items_[(first_ + i) & mask_]; }
  [[nodiscard]] T& front() { return items_[first_]; }
  [[nodiscard]] const T& front() const { return items_[first_]; }
  void pop_front() {
    first_ = (first_ + 1) & mask_;
    --size_;
  }
  void push_back(T item) {
    if (size_ == items_.size()) grow();
    items_[(first_ + size_++) & mask_] = std::move(item);
  }
  /// Puts an item behind the last one that is not `after` it.
  template <typename After>
  void insert(T item, const After& after) {
    push_back(std::move(item));
    for (std::size_t i = size_ - 1; i > 0 && after((*this)[i - 1], (*this)[i]); --i) {
      std::swap((*this)[i - 1], (*this)[i]);
    }
  }

 private:
  static constexpr std::size_t kLeast = 8;
  void grow() {
    std::vector<T> larger(size_ == 0 ? kLeast : 2 * size_);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
    mask_ = items_.size() - 1;
  }
  std::vector<T> items_;  // a power of two
  std::size_t first_ = 0, size_ = 0, mask_ = 0;
};

}  // namespace nkisim::models
