// Compresses data as zlib does, with libdeflate, which is faster (figures: bench/README.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct libdeflate_compressor;

namespace nkisim {

/// Packs streams. The same bytes always give the same stream.
class Deflater {
 public:
  Deflater();
  /// RFC 1951.
  [[nodiscard]] std::string packed(std::string_view bytes);
  /// In zlib's form, RFC 1950.
  [[nodiscard]] std::string zlib_packed(std::string_view bytes);

 private:
  struct Free {
    void operator()(libdeflate_compressor* compressor) const;
  };
  std::unique_ptr<libdeflate_compressor, Free> compressor_;
};

/// The checksum that zip and gzip have.
[[nodiscard]] std::uint32_t crc32_of(std::string_view bytes);

}  // namespace nkisim
