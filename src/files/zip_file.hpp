// Reads and writes the part of the zip format that .npz files use: stored and deflated members,
// zip64 sizes.
//
// Ours, because no library does all that is needed (figures: bench/README.md):
// - libzip reads as fast, but loads OpenSSL and bzip2, which every start of nkisim would wait for.
// - minizip reads stored members at two thirds of the speed, takes an archive that was cut within
//   its end record for whole or empty, and cannot open one without members, which NumPy writes.
// - Both write in 1.6 times the time and go back to a member's header once its size is known, which
//   a pipe does not allow. libzip also removes a file without members and makes its own temporary
//   one.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/error.hpp"
#include "src/files/atomic_file.hpp"

namespace nkisim {

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, offset = 0;
};

/// Reads members of a zip file; every flaw is an isa::Error naming the file.
class ZipReader {
 public:
  explicit ZipReader(const std::filesystem::path& path);
  [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }
  [[nodiscard]] std::string read(const ZipMember& member);

 private:
  void read_directory();
  [[nodiscard]] std::string bytes(std::uint64_t offset, std::uint64_t size);
  [[noreturn]] void fail(isa::Rule rule, const std::string& what) const;
  std::string name_;
  std::ifstream in_;
  std::uint64_t file_size_ = 0;
  std::vector<ZipMember> members_;
};

/// Writes stored members, and deflated ones, which may come in pieces.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path);
  void add(const std::string& name, std::string_view bytes);
  /// A deflated member, kept until its end: its head, which comes first, has its sizes. Members are
  /// compressed in parallel, one on each processor, and written in order.
  void begin(const std::string& name);
  void write(std::string_view bytes) { kept_ += bytes; }
  void end();
  void commit();

 private:
  struct Packed {
    std::string bytes;
    std::uint32_t crc = 0;
    std::uint64_t size = 0;  // unpacked
  };
  struct Pending {
    std::string name;
    std::future<Packed> packed;
  };
  static Packed pack(const std::string& bytes);
  void write_pending(std::size_t left);
  void put_member(const std::string& name, std::uint16_t method, std::string_view packed,
                  std::uint32_t crc, std::uint64_t size);
  void put_head(const ZipMember& member);
  void check_size(const std::string& name, std::uint64_t more) const;
  std::string name_, kept_;  // of a deflated member until its end
  std::deque<Pending> pending_;
  AtomicFile out_;
  std::vector<ZipMember> members_;
  std::uint64_t offset_ = 0;
};

}  // namespace nkisim
