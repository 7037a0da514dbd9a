// Compresses data as zlib does, with libdeflate.

#include "src/files/deflate.hpp"

#include <libdeflate.h>

#include <new>

namespace nkisim {
namespace {

constexpr int kLevel = 1;  // the fastest

using Pack = std::size_t (*)(libdeflate_compressor*, const void*, std::size_t, void*, std::size_t);
using Bound = std::size_t (*)(libdeflate_compressor*, std::size_t);

std::string made(std::string_view bytes, libdeflate_compressor* compressor, Pack pack,
                 Bound bound) {
  std::string out(bound(compressor, bytes.size()), '\0');  // which is always enough
  out.resize(pack(compressor, bytes.data(), bytes.size(), out.data(), out.size()));
  return out;
}

}  // namespace

void Deflater::Free::operator()(libdeflate_compressor* compressor) const {
  libdeflate_free_compressor(compressor);
}

Deflater::Deflater() : compressor_(libdeflate_alloc_compressor(kLevel)) {
  if (!compressor_) throw std::bad_alloc();
}

std::string Deflater::packed(std::string_view bytes) {
  return made(bytes, compressor_.get(), libdeflate_deflate_compress,
              libdeflate_deflate_compress_bound);
}

std::string Deflater::zlib_packed(std::string_view bytes) {
  return made(bytes, compressor_.get(), libdeflate_zlib_compress, libdeflate_zlib_compress_bound);
}

std::uint32_t crc32_of(std::string_view bytes) {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

}  // namespace nkisim
