// Declares the operating system services that nkisim needs beyond the standard library. Only this
// folder knows the system: linux.cpp is for Linux, portable.cpp for any other (macOS, WebAssembly).
// A missing feature costs time or memory there and never changes a result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nkisim::isa::host {

/// Something that this system does not give us, and what follows from it.
struct MissingService {
  const char* what;
  const char* follows;
};

/// All of them; none on Linux.
[[nodiscard]] std::span<const MissingService> missing_services();

// ---- memory
// --------------------------------------------------------------------------------------

/// Zeroed pages of the system's, or nullptr where there are none to ask for: malloc's then serve.
/// Throws std::bad_alloc where they are refused.
[[nodiscard]] void* map_zeros(std::size_t bytes, bool large_pages);
/// A copy of what a file of `memory_file` begins with, made page by page as it is written to.
[[nodiscard]] void* map_copy(int file, std::size_t bytes);
void unmap(void* at, std::size_t bytes);
/// A file in memory with these bytes; -1 where the system has none to give.
[[nodiscard]] int memory_file(std::span<const std::byte> bytes);
/// A file in memory of so many zeros, and its own bytes; -1 and nullptr where there are none to
/// give.
[[nodiscard]] int memory_file(std::size_t bytes);
[[nodiscard]] void* map_file(int file, std::size_t bytes);
/// Memory of map_file takes nothing of the process until it is read again; the file has the bytes.
void leave_to_file(void* at, std::size_t bytes);
void close_memory_file(int file);
/// The bytes of an open file, to read until `unmap`; nullptr where they cannot be mapped.
[[nodiscard]] const char* map_to_read(int file, std::size_t bytes);

/// From here on malloc keeps what is freed for what is taken next.
void keep_freed_memory();
/// From here on malloc maps what is larger than this anew, so that only touched pages are cleared.
void map_larger_than(std::size_t bytes);
/// Gives memory that malloc holds unused back to the system.
void give_back_freed_memory();

/// The most memory that this process may have: by the machine, its limits and its control group.
[[nodiscard]] std::int64_t memory_bytes();
/// The threads or copies of this process that may compute at a time: NKISIM_THREADS, from 1 to 64,
/// else its processors, by what it may run on and the share of its control group.
[[nodiscard]] std::size_t processors();
/// The memory that the process has now; 0 if the system does not say.
[[nodiscard]] std::int64_t resident_bytes();

// ---- processes and files
// -------------------------------------------------------------------------

/// This process gets the signal when its parent ends.
void end_with_parent(int signal);
/// The path of the program that runs; empty if unknown.
[[nodiscard]] std::string own_program();
/// Inode, size and time of the last change (s, ns): they show that a file has changed. false:
/// there is none.
[[nodiscard]] bool file_state(const std::string& path, std::array<std::int64_t, 4>& state);

}  // namespace nkisim::isa::host
