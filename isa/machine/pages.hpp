// Allocates zeroed memory that takes nothing of the host until it is touched. All of it goes back
// to the host when it is released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace nkisim::isa {

/// A run of bytes, from the host's pages where it is large. (calloc gives pages of its own only to
/// what is larger than a threshold, which grows up to 32 MiB as such pages are released: from then
/// on an SBUF comes from the heap, cleared and so touched throughout.)
class Pages {
 public:
  Pages() = default;
  /// Zeros. `filled`: all of them will be written, so that large pages take no more than small
  /// ones. Throws std::bad_alloc.
  explicit Pages(std::size_t bytes, bool filled = false);
  /// Starts with the contents of a file of host::memory_file; writes do not reach the file. Throws
  /// std::bad_alloc.
  Pages(int file, std::size_t bytes);
  /// The file's own zeros, which writes do reach; empty where there are none to give.
  [[nodiscard]] static Pages of_file(int file, std::size_t bytes);
  [[nodiscard]] void* data() const { return data_.get(); }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  struct Free {
    std::size_t mapped;  // bytes; 0: from malloc
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_ = {nullptr, Free{0}};
};

/// The same as an array of T, whose zero is all bits zero.
template <typename T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t count) : pages_(count * sizeof(T)) {}
  [[nodiscard]] T* get() const { return static_cast<T*>(pages_.data()); }
  explicit operator bool() const { return static_cast<bool>(pages_); }

 private:
  Pages pages_;
};

/// Copies `bytes` bytes onto zeros: pages that hold zeros alone are left out. The bytes written.
std::int64_t copy_nonzero(void* to, const void* from, std::size_t bytes);

}  // namespace nkisim::isa
