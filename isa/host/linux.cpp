// Implements for Linux the operating system services of host.hpp: pages, memory limits, processes.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include "isa/host/host.hpp"
#include "isa/host/posix.hpp"

namespace nkisim::isa::host {
namespace {

void* map(std::size_t bytes, int flags, int file) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, file, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return at;
}

// A column of this process's sizes: size, resident, shared, text, lib, data. Nothing is allocated.
std::int64_t bytes_of(int column) {
  std::array<char, 256> text{};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  const char* at = text.data();
  std::int64_t pages = 0;
  for (int c = 0; c <= column && size > 0; ++c) {
    char* end = nullptr;
    pages = std::strtoll(at, &end, 10);
    at = end;
  }
  return pages * sysconf(_SC_PAGE_SIZE);
}

}  // namespace

std::span<const MissingService> missing_services() { return {}; }

void* map_zeros(std::size_t bytes, bool large_pages) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20U;
  void* at = map(bytes, MAP_ANONYMOUS, -1);
  if (large_pages && bytes >= kLargePage) madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}

void* map_copy(int file, std::size_t bytes) { return map(bytes, 0, file); }

void unmap(void* at, std::size_t bytes) { munmap(at, bytes); }

int memory_file(std::span<const std::byte> bytes) {
  const int file = memfd_create("nkisim", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n <= 0) {
      close(file);
      return -1;
    }
    done += static_cast<std::size_t>(n);
  }
  return file;
}

int memory_file(std::size_t bytes) {
  const int file = memfd_create("nkisim", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  close(file);
  return -1;
}

void* map_file(int file, std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}

void leave_to_file(void* at, std::size_t bytes) { madvise(at, bytes, MADV_DONTNEED); }

void close_memory_file(int file) { close(file); }

const char* map_to_read(int file, std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<const char*>(at);
}

#ifdef __GLIBC__

void keep_freed_memory() {
  constexpr int kAll = 1 << 30;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kAll);
  mallopt(M_TOP_PAD, 1 << 24);
}

void map_larger_than(std::size_t bytes) { mallopt(M_MMAP_THRESHOLD, static_cast<int>(bytes)); }

void give_back_freed_memory() { malloc_trim(0); }

#else  // another C library's malloc has no such knobs

void keep_freed_memory() {}
void map_larger_than(std::size_t /*bytes*/) {}
void give_back_freed_memory() {}

#endif

std::int64_t group_memory_bytes() {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  const auto look = [&bytes](const std::filesystem::path& name) {
    std::ifstream in(name);
    if (std::int64_t limit = 0; in >> limit && limit > 0) bytes = std::min(bytes, limit);
  };
  look("/sys/fs/cgroup/memory.max");
  look("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  // The group of this process and those that it is in: "0::/a/b", "7:memory:/a/b".
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(':', line.find(':') + 1);
    if (path == std::string::npos) continue;
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* file = unified ? "memory.max" : "memory.limit_in_bytes";
    for (std::filesystem::path at = line.substr(path + 1); at.has_relative_path();
         at = at.parent_path()) {
      look(root / at.relative_path() / file);
    }
  }
  return bytes;
}

std::int64_t data_bytes() { return bytes_of(5); }

std::int64_t resident_bytes() { return bytes_of(1); }

void end_with_parent(int signal) { prctl(PR_SET_PDEATHSIG, signal); }

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

bool file_state(const std::string& path, std::array<std::int64_t, 4>& state) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return false;
  state = {static_cast<std::int64_t>(s.st_ino), static_cast<std::int64_t>(s.st_size),
           static_cast<std::int64_t>(s.st_mtim.tv_sec),
           static_cast<std::int64_t>(s.st_mtim.tv_nsec)};
  return true;
}

}  // namespace nkisim::isa::host
