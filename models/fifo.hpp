// Provides a first-in, first-out queue that does not allocate memory for each element.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace nkisim::models {

/// First in, first out, indexable from the oldest. References are invalidated by push_back().
template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return head_ == items_.size(); }
  [[nodiscard]] std::size_t size() const { return items_.size() - head_; }
  [[nodiscard]] T& front() { return items_[head_]; }
  [[nodiscard]] const T& front() const { return items_[head_]; }
  [[nodiscard]] T& operator[](std::size_t i) { return items_[head_ + i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return items_[head_ + i]; }
  void push_back(T item) {
    if (items_.size() == items_.capacity() && head_ >= items_.size() / 2) compact();
    items_.push_back(std::move(item));
  }
  /// Puts an item behind the last one that is not `after` it.
  template <typename After>
  void insert(T item, const After& after) {
    push_back(std::move(item));
    for (std::size_t i = items_.size() - 1; i > head_ && after(items_[i - 1], items_[i]); --i) {
      std::swap(items_[i - 1], items_[i]);
    }
  }
  void pop_front() {
    if (++head_ < items_.size()) return;
    items_.clear();
    head_ = 0;
  }

 private:
  void compact() {
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace nkisim::models
