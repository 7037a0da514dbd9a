// Allocates zeroed memory for simulated tensors: by mmap, or by plain allocation for small sizes.

#include "isa/machine/pages.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "isa/host/host.hpp"
#include "isa/machine/large_pages.hpp"

namespace nkisim::isa {

namespace {

std::atomic<bool> large_pages = false;

// Below it a mapping costs more than it saves, and the host counts mappings.
constexpr std::size_t kWorthMapping = std::size_t{128} << 10U;

}  // namespace

void prefer_large_pages() { large_pages = true; }

Pages::Pages(int file, std::size_t bytes) : data_(host::map_copy(file, bytes), Free{bytes}) {}

Pages Pages::of_file(int file, std::size_t bytes) {
  Pages pages;
  if (void* at = host::map_file(file, bytes)) pages.data_ = {at, Free{bytes}};
  return pages;
}

Pages::Pages(std::size_t bytes, bool filled) {
  if (bytes >= kWorthMapping) data_ = {host::map_zeros(bytes, filled || large_pages), Free{bytes}};
  if (data_ != nullptr) return;
  data_ = {std::calloc(std::max<std::size_t>(bytes, 1), 1), Free{0}};
  if (data_ == nullptr) throw std::bad_alloc();
}

void Pages::Free::operator()(void* p) const {
  if (mapped > 0) {
    host::unmap(p, mapped);
  } else {
    std::free(p);
  }
}

std::int64_t copy_nonzero(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  static constexpr std::byte kZeros[kPage] = {};
  std::int64_t copied = 0;
  for (std::size_t at = 0; at < bytes; at += kPage) {
    const std::size_t size = std::min(kPage, bytes - at);
    const auto* source = static_cast<const std::byte*>(from) + at;
    if (std::memcmp(source, kZeros, size) == 0) continue;
    std::memcpy(static_cast<std::byte*>(to) + at, source, size);
    copied += static_cast<std::int64_t>(size);
  }
  return copied;
}

}  // namespace nkisim::isa
