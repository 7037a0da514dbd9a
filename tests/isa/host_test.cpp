// Tests the wrappers of operating system services, and the fallbacks where a service is missing.
#include "isa/host/host.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "isa/host/team.hpp"
#include "isa/machine/gemm.hpp"
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

// Forks: the answer of `check` in a copy of this process, whose team has `threads`.
bool in_copy_with(int threads, bool (*check)(int threads)) {
  const pid_t copy = fork();
  if (copy == 0) {
    setenv("NKISIM_THREADS", std::to_string(threads).c_str(), 1);
    _exit(check(threads) ? 0 : 1);
  }
  int status = -1;
  waitpid(copy, &status, 0);
  return status == 0;
}

bool does_each_part_once(int threads) {
  if (host::team_size() != threads) return false;
  for (int round = 0; round < 3000; ++round) {
    const int count = round % 40;
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
    host::in_team(count, [&](int part) { ++done[static_cast<std::size_t>(part)]; });
    if (std::any_of(done.begin(), done.end(), [](const auto& n) { return n != 1; })) return false;
    if (round % 500 == 0) usleep(1000);  // members sleep
  }
  return true;
}

bool gives_back_what_a_part_throws(int /*threads*/) {
  std::atomic<int> others = 0;
  try {
    host::in_team(20, [&](int part) {
      if (part == 7) throw std::runtime_error("seven");
      ++others;
    });
  } catch (const std::runtime_error& error) {
    if (others == 19 && std::string(error.what()) == "seven") return does_each_part_once(2);
  }
  return false;
}

bool is_alone_in_a_copy(int threads) {
  return does_each_part_once(threads) && in_copy_with(threads, [](int) {
           int sum = 0;  // of one thread
           host::in_team(10, [&](int part) { sum += part; });
           return host::team_size() == 1 && sum == 45;
         });
}

bool multiplies_as_one(int /*threads*/) {
  constexpr int kK = 128, kM = 128;
  for (const int n : {64, 96, 500, 512}) {
    std::vector<float> left(kK * kM), right(static_cast<std::size_t>(kK * n));
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = 1.0F / static_cast<float>(i % 97 + 1);
    for (std::size_t i = 0; i < right.size(); ++i) right[i] = 0.3F * static_cast<float>(i % 89);
    std::vector<float> whole(static_cast<std::size_t>(kM * n), 0.5F), shared = whole;
    const auto st = fp32_rows(left.data(), kM), mv = fp32_rows(right.data(), n);
    matmul_at(host_simd_level(), st, mv, whole.data(), n, kK, kM, n, true, Products::kRounded);
    matmul(st, mv, shared.data(), n, kK, kM, n, true);
    if (std::memcmp(whole.data(), shared.data(), whole.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a team of threads does each part once", "[host]") {
  for (const int threads : {1, 2, 5}) CHECK(in_copy_with(threads, does_each_part_once));
  CHECK(in_copy_with(2, gives_back_what_a_part_throws));
  CHECK(in_copy_with(3, is_alone_in_a_copy));
}

TEST_CASE("a product has the same bits from any number of threads", "[host]") {
  for (const int threads : {1, 2, 5}) CHECK(in_copy_with(threads, multiplies_as_one));
}

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
