// Tests the wrappers of operating system services, and the fallbacks where a service is missing.
#include "isa/host/host.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "isa/machine/pages.hpp"

using namespace nkisim::isa;

namespace {

// A file of this name and these bytes, as long as it lives.
struct File {
  explicit File(const std::string& bytes)
      : path(
            (std::filesystem::temp_directory_path() / ("nkisim-host-" + std::to_string(::getpid())))
                .string()) {
    std::ofstream(path) << bytes;
  }
  ~File() { std::filesystem::remove(path); }
  std::string path;
};

}  // namespace

TEST_CASE("what a system lacks has consequences", "[host]") {
#ifdef NKISIM_LINUX_HOST
  CHECK(host::missing_services().empty());
#else
  CHECK(host::missing_services().size() >= 4);
#endif
  for (const host::MissingService& lack : host::missing_services()) {
    CHECK(std::strlen(lack.what) > 8);
    CHECK(std::strlen(lack.follows) > 8);
  }
}

TEST_CASE("pages are zero, small and large, and belong to whoever has them", "[host]") {
  for (const std::size_t bytes : {0U, 1U, 4096U, 1U << 20U, 5U << 20U}) {
    Pages pages(bytes);
    auto* at = static_cast<unsigned char*>(pages.data());
    REQUIRE(at != nullptr);
    CHECK(std::all_of(at, at + bytes, [](unsigned char c) { return c == 0; }));
    if (bytes > 0) at[bytes - 1] = 1;
    const Pages moved = std::move(pages);
    CHECK(moved.data() == at);
  }
}

TEST_CASE("a copy of a file in memory is its holder's", "[host]") {
  const std::vector<std::byte> bytes(100000, std::byte{7});
  const int file = host::memory_file(bytes);
  if (file < 0) {
    CHECK_FALSE(host::missing_services().empty());
    return;
  }
  const Pages first(file, bytes.size()), second(file, bytes.size());
  static_cast<std::byte*>(first.data())[99999] = std::byte{1};
  CHECK(static_cast<std::byte*>(first.data())[0] == std::byte{7});
  CHECK(static_cast<std::byte*>(second.data())[99999] == std::byte{7});
  host::close_memory_file(file);
}

TEST_CASE("a file is mapped to be read", "[host]") {
  const File file("some bytes");
  const int open = ::open(file.path.c_str(), O_RDONLY);
  const char* at = host::map_to_read(open, 10);
  ::close(open);
  REQUIRE(at != nullptr);
  CHECK(std::string(at, 10) == "some bytes");
  host::unmap(const_cast<char*>(at), 10);
  CHECK(host::map_to_read(-1, 10) == nullptr);
}

TEST_CASE("a file's state changes with it", "[host]") {
  std::array<std::int64_t, 4> before{}, after{};
  {
    const File file("some bytes");
    REQUIRE(host::file_state(file.path, before));
    CHECK(before[1] == 10);
    CHECK(before[2] > 1'700'000'000);
    std::ofstream(file.path) << "other bytes";
    REQUIRE(host::file_state(file.path, after));
    CHECK(after[1] == 11);
    CHECK(after[0] == before[0]);
  }
  CHECK_FALSE(host::file_state("/nowhere/at all", before));
}

TEST_CASE("a process reports its memory and its limit", "[host]") {
  CHECK(host::memory_bytes() > 1 << 24);
  const Pages touched(1 << 24);
  auto* const at = static_cast<volatile char*>(touched.data());
  for (std::size_t i = 0; i < 1 << 24; i += 4096) at[i] = 1;
  const std::int64_t has = host::resident_bytes();
  CHECK(
      (has == 0 ? !host::missing_services().empty() : has > 1 << 24 && has < host::memory_bytes()));
}
