#include "isa/machine/pages.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "isa/machine/large_pages.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace nkisim::isa {

namespace {

std::atomic<bool> large_pages = false;

}  // namespace

void prefer_large_pages() { large_pages = true; }

#ifdef __linux__

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

// Below it a mapping costs more than it saves, and the host counts mappings.
constexpr std::size_t kWorthMapping = std::size_t{128} << 10;

void* map(std::size_t bytes, int flags, int file) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, file, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return at;
}

}  // namespace

Pages::Pages(int file, std::size_t bytes) : data_(map(bytes, 0, file), Free{bytes}) {}

#endif

Pages::Pages(std::size_t bytes) {
#ifdef __linux__
  if (bytes >= kWorthMapping) {
    data_ = {map(bytes, MAP_ANONYMOUS, -1), Free{bytes}};
    if (large_pages && bytes >= kLargePage) madvise(data_.get(), bytes, MADV_HUGEPAGE);
    return;
  }
#endif
  data_ = {std::calloc(std::max<std::size_t>(bytes, 1), 1), Free{0}};
  if (data_ == nullptr) throw std::bad_alloc();
}

void Pages::Free::operator()(void* p) const {
#ifdef __linux__
  if (mapped > 0) {
    munmap(p, mapped);
    return;
  }
#endif
  std::free(p);
}

}  // namespace nkisim::isa
