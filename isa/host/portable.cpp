// Implements the operating system services of host.hpp by POSIX and, on macOS, its own calls.
// -DNKISIM_PORTABLE_HOST=ON builds this file on Linux too, so that tests there test it
// (scripts/clang).
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <mach/mach.h>
#endif

#include "isa/host/host.hpp"
#include "isa/host/posix.hpp"

namespace nkisim::isa::host {

std::span<const MissingService> missing_services() {
  static constexpr auto kMissing = std::to_array<MissingService>({
      {"pages that are copied when they are written to",
       "an input that several ranks share is copied for each of them"},
      {"a say in what malloc keeps",
       "nkisim worker asks the system for memory again in every job, and a process that runs many "
       "large worlds may keep what they left free"},
      {"large pages on request", "memories of a gigabyte and more fill slower"},
#ifndef __APPLE__
      {"the memory that a process has", "--max-memory bounds tensors and not the process"},
      {"the path of the program that runs",
       "NKISIM_PROGRAM has to name it, and PYTHONPATH the package"},
#endif
      {"an end with the parent",
       "a command that Python runs for nkisim survives kill -9 of nkisim"},
  });
  return kMissing;
}

void* map_zeros(std::size_t /*bytes*/, bool /*large_pages*/) { return nullptr; }

void* map_copy(int /*file*/, std::size_t /*bytes*/) { return nullptr; }

void unmap(void* at, std::size_t bytes) { munmap(at, bytes); }

int memory_file(std::span<const std::byte> /*bytes*/) { return -1; }

int memory_file(std::size_t /*bytes*/) { return -1; }

void* map_file(int /*file*/, std::size_t /*bytes*/) { return nullptr; }

void leave_to_file(void* /*at*/, std::size_t /*bytes*/) {}

void close_memory_file(int /*file*/) {}

const char* map_to_read(int file, std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<const char*>(at);
}

void keep_freed_memory() {}

void map_larger_than(std::size_t /*bytes*/) {}

void give_back_freed_memory() {}

std::int64_t group_memory_bytes() { return std::numeric_limits<std::int64_t>::max(); }

std::int64_t data_bytes() { return 0; }

void end_with_parent(int /*signal*/) {}

#ifdef __APPLE__

std::int64_t resident_bytes() {
  mach_task_basic_info info{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  const bool done = task_info(mach_task_self(), MACH_TASK_BASIC_INFO,
                              reinterpret_cast<task_info_t>(&info), &count) == KERN_SUCCESS;
  return done ? static_cast<std::int64_t>(info.resident_size) : 0;
}

std::string own_program() {
  std::uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  path.resize(path.find('\0'));
  std::error_code ec;
  return std::filesystem::canonical(path, ec).string();
}

#else

std::int64_t resident_bytes() { return 0; }

std::string own_program() {
  const char* said = std::getenv("NKISIM_PROGRAM");
  return said == nullptr ? std::string() : std::string(said);
}

#endif

bool file_state(const std::string& path, std::array<std::int64_t, 4>& state) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return false;
#ifdef __APPLE__
  const timespec& changed = s.st_mtimespec;
#else
  const timespec& changed = s.st_mtim;
#endif
  state = {static_cast<std::int64_t>(s.st_ino), static_cast<std::int64_t>(s.st_size),
           static_cast<std::int64_t>(changed.tv_sec), static_cast<std::int64_t>(changed.tv_nsec)};
  return true;
}

}  // namespace nkisim::isa::host
