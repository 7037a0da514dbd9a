// Provides a pool of objects that are used again, with what they have allocated.
#pragma once

#include <deque>
#include <vector>

namespace nkisim::models {

/// Objects at fixed addresses. take() gives one as it was given back, or a new one.
template <typename T>
class Pool {
 public:
  [[nodiscard]] T& take() {
    if (free_.empty()) return store_.emplace_back();
    T& item = *free_.back();
    free_.pop_back();
    return item;
  }
  void give_back(T& item) { free_.push_back(&item); }
  /// Forgets all objects.
  void clear() {
    free_.clear();
    store_.clear();
  }

 private:
  std::deque<T> store_;
  std::vector<T*> free_;
};

}  // namespace nkisim::models
