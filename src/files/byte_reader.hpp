// Reads the bytes of a file or a buffer in sequence, and decompresses gzip on the way.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/error.hpp"

namespace nkisim {

/// Reads forward only. Compression is recognised by content. Every failure (missing file, truncated
/// or corrupt gzip, an absurdly long line) is an isa::Error that names the file.
class ByteReader {
 public:
  [[nodiscard]] static ByteReader open(const std::string& path);
  /// `data` must outlive the reader.
  [[nodiscard]] static ByteReader from_memory(std::string_view data, std::string name);
  ByteReader(ByteReader&&) noexcept;
  ByteReader& operator=(ByteReader&&) noexcept;
  ~ByteReader();

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Bytes of the underlying file consumed so far, and its size (progress reports).
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }

  /// Up to `n` coming bytes without consuming them; fewer only at the end.
  [[nodiscard]] std::string_view peek(std::size_t n);
  void skip(std::size_t n) { position_ += n; }
  /// The next line without its end-of-line; false at the end. Valid until the next call.
  bool read_line(std::string_view& line);
  /// The next `n` bytes; throws if fewer are left. Valid until the next call.
  std::string_view read(std::size_t n);
  /// Little-endian base-128 number; throws if truncated or longer than 64 bits.
  std::uint64_t read_varint() {
    if (end_ - position_ < kMaxVarint) return read_varint_slowly();
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(buffer_[position_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80U) return value;
    }
    fail_varint();
  }
  [[nodiscard]] bool at_end() { return peek(1).empty(); }

 private:
  static constexpr std::size_t kMaxVarint = 10;
  explicit ByteReader(std::string name);
  void start();
  bool refill();
  std::size_t raw(char* out, std::size_t capacity);
  std::size_t inflate_some(char* out, std::size_t capacity);
  void next_input();
  std::uint64_t read_varint_slowly();
  [[noreturn]] void fail_varint() const;
  [[noreturn]] void fail(isa::Rule rule, const std::string& what) const;

  struct Inflater;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string_view memory_;
  std::unique_ptr<Inflater> inflater_;
  std::vector<char> buffer_;
  std::size_t position_ = 0, end_ = 0;
  std::uint64_t consumed_ = 0, total_ = 0;
};

}  // namespace nkisim
