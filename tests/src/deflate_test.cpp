// Tests our deflate compression: zlib must unpack its output.
#include "src/files/deflate.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <random>

#include "src/files/files.hpp"

namespace {

using namespace nkisim;

// By zlib, which must find the end exactly where the stream ends.
std::string unpacked(std::string stream, std::size_t size, int window) {
  std::string out(size + 1, '\0');
  z_stream s{};
  REQUIRE(inflateInit2(&s, window) == Z_OK);
  s.next_in = reinterpret_cast<Bytef*>(stream.data());
  s.avail_in = static_cast<uInt>(stream.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data());
  s.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&s, Z_FINISH);
  const bool whole = status == Z_STREAM_END && s.avail_in == 0;
  out.resize(s.total_out);
  inflateEnd(&s);
  CHECK(whole);
  return out;
}

std::string some_bytes(std::size_t count, unsigned kinds, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % kinds);
  return bytes;
}

}  // namespace

TEST_CASE("zlib unpacks what is packed, in either form") {
  Deflater deflater;
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(1'000'001, 'x'),
                                   some_bytes(700'001, 256, 1), some_bytes(300'000, 3, 2)}) {
    CHECK((unpacked(deflater.packed(bytes), bytes.size(), -15) == bytes));
    CHECK((unpacked(deflater.zlib_packed(bytes), bytes.size(), 15) == bytes));
    CHECK((Deflater().packed(bytes) == deflater.packed(bytes)));
  }
  CHECK(deflater.packed(std::string(1'000'000, 'x')).size() < 10'000);
}

TEST_CASE("the checksum is zlib's") {
  const std::string bytes = some_bytes(70'001, 256, 3);
  CHECK(crc32_of(bytes) ==
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
  CHECK(crc32_of("") == 0);
}
