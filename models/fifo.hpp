// Provides a first-in, first-out queue that grows, on a boost::circular_buffer.
#pragma once

#include <algorithm>
#include <boost/circular_buffer.hpp>
#include <cstddef>
#include <utility>

namespace nkisim::models {

/// First in, first out, indexable from the oldest. References are invalidated by push_back().
template <typename T>
class Fifo : private boost::circular_buffer<T> {
  using Ring = boost::circular_buffer<T>;

 public:
  using Ring::empty, Ring::size, Ring::front, Ring::pop_front, Ring::operator[];
  void push_back(T item) {
    grow();
    Ring::push_back(std::move(item));
  }
  /// Puts an item behind the last one that is not `after` it.
  template <typename After>
  void insert(T item, const After& after) {
    grow();
    Ring::push_back(std::move(item));
    for (std::size_t i = size() - 1; i > 0 && after((*this)[i - 1], (*this)[i]); --i) {
      std::swap((*this)[i - 1], (*this)[i]);
    }
  }

 private:
  static constexpr std::size_t kLeast = 8;
  void grow() {
    if (this->full()) this->set_capacity(std::max(kLeast, 2 * this->capacity()));
  }
};

}  // namespace nkisim::models
