// Holds the common parts of the fuzzers of readers. A fuzzer calls one reader with the bytes that
// it is given: the reader succeeds, or throws an Error with a text that blames the input.
// Anything else ends the fuzzer, which then keeps the bytes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "isa/base/error.hpp"

namespace nkisim::fuzz {

/// Ends the fuzzer.
[[noreturn]] inline void wrong(const std::string& what) {
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  std::abort();
}

inline void require(bool condition, const char* what) {
  if (!condition) wrong(what);
}

/// Calls `reader`; true if it succeeded.
template <typename Reader>
bool accepted(Reader&& reader) {
  try {
    reader();
    return true;
  } catch (const isa::Error& e) {
    require(e.code() != isa::ErrorCode::kInternal, e.what());
    require(!e.message().empty(), "an error without a text");
    return false;
  }
}

/// A file in memory, by the path that readers open.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzzed", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "no file in memory");
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      require(written > 0, "a file in memory takes no bytes");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace nkisim::fuzz
