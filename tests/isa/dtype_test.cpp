// Tests casts between dtypes against tables of NumPy and ml_dtypes (make_dtype_reference.py), and
// 16-bit floats exhaustively against their definition.
#include "isa/base/dtype.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_folder.hpp"

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::array kDecodeOrder = {Dtype::kFloat8E3m4, Dtype::kFloat8E4m3, Dtype::kFloat8E4m3fn,
                                     Dtype::kFloat8E5m2, Dtype::kFloat8E8m0fnu};

// Reads the reference file front to back.
class Reference {
 public:
  Reference() {
    std::ifstream in(source_folder() + "/tests/isa/data/dtype_reference.bin", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  template <class T>
  std::vector<T> take(std::size_t count) {
    REQUIRE(at_ + count * sizeof(T) <= bytes_.size());
    std::vector<T> values(count);
    std::memcpy(values.data(), bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return values;
  }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

std::uint32_t bits(float f) { return std::bit_cast<std::uint32_t>(f); }
std::uint32_t without_nan_sign(float f) { return std::isnan(f) ? 0x7fc00000U : bits(f); }

// All codes of a type of `size` bytes, decoded in bulk.
std::vector<float> decode_all(Dtype dtype) {
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  const std::size_t count = size == 1 ? 256 : 65536;
  std::vector<std::byte> codes(count * size);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i * size], &i, size);
  std::vector<float> values(count);
  decode(dtype, codes.data(), count, values.data());
  return values;
}

template <class T>
T encoded(Dtype dtype, float value) {
  T code{};
  REQUIRE(size_bytes(dtype) == static_cast<int>(sizeof(T)));
  encode_one(dtype, value, reinterpret_cast<std::byte*>(&code));
  return code;
}

template <class T>
void compare_encode(Reference& reference, Dtype dtype, const std::vector<float>& in) {
  const std::vector<T> expected = reference.take<T>(in.size());
  std::vector<T> bulk(in.size());
  encode(dtype, in.data(), in.size(), reinterpret_cast<std::byte*>(bulk.data()));
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (bulk[i] == expected[i] && encoded<T>(dtype, in[i]) == expected[i]) continue;
    CAPTURE(name(dtype), in[i], bits(in[i]), +bulk[i], +encoded<T>(dtype, in[i]));
    REQUIRE(+bulk[i] == +expected[i]);
    REQUIRE(+encoded<T>(dtype, in[i]) == +expected[i]);
  }
}

void compare_fp4(Reference& reference, const std::vector<float>& in) {
  const std::vector<std::uint8_t> expected = reference.take<std::uint8_t>(in.size());
  for (std::size_t i = 0; i + 4 <= in.size(); ++i) {
    std::uint16_t packed = 0;
    encode(Dtype::kFloat4E2m1fnX4, &in[i], 1, reinterpret_cast<std::byte*>(&packed));
    for (std::size_t j = 0; j < 4; ++j) {
      if (((packed >> (4 * j)) & 15) == expected[i + j]) continue;
      CAPTURE(in[i + j], j);
      REQUIRE(((packed >> (4 * j)) & 15) == expected[i + j]);
    }
  }
}

// Value of a 16-bit float from its fields, by definition.
double by_definition(unsigned code, int exponent_bits, int mantissa_bits) {
  const unsigned exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1U);
  const unsigned mantissa = code & ((1U << mantissa_bits) - 1U);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned hidden = exponent == 0 ? 0U : 1U << mantissa_bits;
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - mantissa_bits;
  const double magnitude = std::ldexp(static_cast<double>(mantissa + hidden), power);
  return (code & 0x8000U) != 0 ? -magnitude : magnitude;
}

// Every midpoint of two neighbours goes to the even one, its own neighbours to the nearer.
void check_midpoints(Dtype dtype, unsigned infinity) {
  const std::vector<float> values = decode_all(dtype);
  const double last_step =
      static_cast<double>(values[infinity - 1]) - static_cast<double>(values[infinity - 2]);
  for (unsigned code = 0; code < infinity; ++code) {
    const double low = static_cast<double>(values[code]);
    const double high =
        code + 1 == infinity ? low + last_step : static_cast<double>(values[code + 1]);
    const auto middle = static_cast<float>((low + high) / 2);
    const unsigned even = (code & 1U) == 0 ? code : code + 1;
    for (const unsigned sign : {0U, 0x8000U}) {
      const float s = sign == 0 ? 1.0F : -1.0F;
      const bool right =
          encoded<std::uint16_t>(dtype, s * middle) == (sign | even) &&
          encoded<std::uint16_t>(dtype, s * std::nextafter(middle, 0.0F)) == (sign | code) &&
          encoded<std::uint16_t>(dtype, s * std::nextafter(middle, kInf)) == (sign | (code + 1)) &&
          encoded<std::uint16_t>(dtype, s * values[code]) == (sign | code);
      if (right) continue;
      CAPTURE(name(dtype), code, middle, sign);
      REQUIRE(right);
    }
  }
}

}  // namespace

TEST_CASE("casts agree with NumPy and ml_dtypes", "[dtype]") {
  Reference reference;
  for (const Dtype dtype : kDecodeOrder) {
    const std::vector<float> expected = reference.take<float>(256);
    const std::vector<float> values = decode_all(dtype);
    for (std::size_t i = 0; i < 256; ++i) {
      CAPTURE(name(dtype), i);
      REQUIRE(without_nan_sign(values[i]) == bits(expected[i]));
    }
  }
  for (const Dtype dtype : {Dtype::kBfloat16, Dtype::kFloat16}) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const float f : decode_all(dtype)) {
      for (unsigned shift = 0; shift < 32; shift += 8) {
        hash = (hash ^ ((without_nan_sign(f) >> shift) & 0xffU)) * 0x100000001b3U;
      }
    }
    CAPTURE(name(dtype));
    REQUIRE(hash == reference.take<std::uint64_t>(1)[0]);
  }
  const std::vector<float> in = reference.take<float>(reference.take<std::uint32_t>(1)[0]);
  REQUIRE(in.size() > 5000);
  compare_encode<std::uint32_t>(reference, Dtype::kTfloat32, in);
  compare_encode<std::uint16_t>(reference, Dtype::kBfloat16, in);
  compare_encode<std::uint16_t>(reference, Dtype::kFloat16, in);
  for (const Dtype dtype : kDecodeOrder) compare_encode<std::uint8_t>(reference, dtype, in);
  compare_fp4(reference, in);
  compare_encode<std::int8_t>(reference, Dtype::kInt8, in);
  compare_encode<std::uint8_t>(reference, Dtype::kUint8, in);
  compare_encode<std::int16_t>(reference, Dtype::kInt16, in);
  compare_encode<std::uint16_t>(reference, Dtype::kUint16, in);
  compare_encode<std::int32_t>(reference, Dtype::kInt32, in);
  compare_encode<std::uint32_t>(reference, Dtype::kUint32, in);
  compare_encode<std::uint8_t>(reference, Dtype::kBool, in);
  REQUIRE(reference.at_end());
}

TEST_CASE("16-bit floats decode as defined and round to nearest even", "[dtype]") {
  const std::vector<float> half = decode_all(Dtype::kFloat16);
  const std::vector<float> brain = decode_all(Dtype::kBfloat16);
  for (unsigned code = 0; code < 65536; ++code) {
    if ((code & 0x7c00U) != 0x7c00U &&
        static_cast<double>(half[code]) != by_definition(code, 5, 10))
      FAIL(code);
    if ((code & 0x7f80U) != 0x7f80U &&
        static_cast<double>(brain[code]) != by_definition(code, 8, 7))
      FAIL(code);
  }
  CHECK(half[0x7c00] == kInf);
  CHECK(half[0xfc00] == -kInf);
  CHECK(std::isnan(half[0x7c01]));
  CHECK(std::isnan(half[0xffff]));
  CHECK(bits(half[0x8000]) == 0x80000000U);
  check_midpoints(Dtype::kFloat16, 0x7c00U);
  check_midpoints(Dtype::kBfloat16, 0x7f80U);
}

TEST_CASE("float casts treat the extremes as documented", "[dtype]") {
  const float lowest = std::numeric_limits<float>::lowest();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  using enum Dtype;
  for (const Dtype dtype :
       {kFloat16, kBfloat16, kTfloat32, kFloat8E3m4, kFloat8E4m3, kFloat8E5m2}) {
    CAPTURE(name(dtype));
    CHECK(round_to(dtype, lowest) == -kInf);
    CHECK(round_to(dtype, kInf) == kInf);
    CHECK(std::isnan(round_to(dtype, nan)));
    CHECK(std::isnan(round_to(dtype, -nan)));
    CHECK(bits(round_to(dtype, -0.0F)) == 0x80000000U);
  }
  CHECK(round_to(kFloat8E4m3fn, 464.0F) == 448.0F);
  CHECK(std::isnan(round_to(kFloat8E4m3fn, 465.0F)));
  CHECK(round_to(kFloat8E4m3, 247.9F) == 240.0F);
  // NaNs whose payload sits in the dropped bits stay NaNs.
  const float low_nan = std::bit_cast<float>(0x7f800001U);
  for (const Dtype dtype :
       {kFloat16, kBfloat16, kTfloat32, kFloat8E3m4, kFloat8E4m3, kFloat8E4m3fn, kFloat8E5m2}) {
    CAPTURE(name(dtype));
    CHECK(std::isnan(round_to(dtype, low_nan)));
    CHECK(std::isnan(round_to(dtype, std::bit_cast<float>(0xffffffffU))));
  }
}

TEST_CASE("float to integer rounds to even, saturates, and maps NaN to 0", "[dtype]") {
  using enum Dtype;
  CHECK(round_to(kInt8, 2.5F) == 2.0F);
  CHECK(round_to(kInt8, -3.5F) == -4.0F);
  CHECK(round_to(kInt8, 127.5F) == 127.0F);
  CHECK(round_to(kUint8, -0.75F) == 0.0F);
  CHECK(round_to(kUint16, kInf) == 65535.0F);
  CHECK(encoded<std::int32_t>(kInt32, 3e9F) == 2147483647);
  CHECK(encoded<std::int32_t>(kInt32, -kInf) == std::numeric_limits<std::int32_t>::min());
  CHECK(encoded<std::int32_t>(kInt32, 2147483520.0F) == 2147483520);
  CHECK(encoded<std::uint32_t>(kUint32, 4294967040.0F) == 4294967040U);
  CHECK(encoded<std::uint32_t>(kUint32, 2147483648.0F) == 2147483648U);
  CHECK(encoded<std::uint32_t>(kUint32, 1e10F) == 4294967295U);
  for (const Dtype dtype : {kInt8, kUint8, kInt16, kUint16, kInt32, kUint32}) {
    CHECK(round_to(dtype, std::numeric_limits<float>::quiet_NaN()) == 0.0F);
  }
  CHECK(round_to(kBool, 0.001F) == 1.0F);
  CHECK(round_to(kBool, -0.0F) == 0.0F);
}

TEST_CASE("integers decode to FP32 with rounding to even", "[dtype]") {
  const std::array<std::uint32_t, 6> u = {0U,          16777217U,   16777219U,
                                          0x80000000U, 0xffffffffU, 0xffffff80U};
  const std::array<float, 6> as_unsigned = {0.0F,          16777216.0F,   16777220.0F,
                                            2147483648.0F, 4294967296.0F, 4294967296.0F};
  const std::array<float, 6> as_signed = {0.0F,           16777216.0F, 16777220.0F,
                                          -2147483648.0F, -1.0F,       -128.0F};
  std::array<float, 6> out{};
  const auto* raw = reinterpret_cast<const std::byte*>(u.data());
  decode(Dtype::kUint32, raw, u.size(), out.data());
  CHECK(out == as_unsigned);
  decode(Dtype::kInt32, raw, u.size(), out.data());
  CHECK(out == as_signed);
  const std::array<std::uint8_t, 2> bytes = {0x80, 0xff};
  const auto* raw_bytes = reinterpret_cast<const std::byte*>(bytes.data());
  CHECK(decode_one(Dtype::kInt8, raw_bytes) == -128.0F);
  CHECK(decode_one(Dtype::kUint8, raw_bytes + 1) == 255.0F);
  CHECK(decode_one(Dtype::kInt16, raw_bytes) == -128.0F);
  CHECK(decode_one(Dtype::kUint16, raw_bytes) == 65408.0F);
}

TEST_CASE("packed types hold their first value in the lowest bits", "[dtype]") {
  const std::array<float, 8> values = {1.0F, -2.0F, 0.5F, 6.0F, 3.0F, -0.0F, 4.0F, 1.5F};
  for (const Dtype dtype : {Dtype::kFloat8E5m2X4, Dtype::kFloat8E4m3fnX4, Dtype::kFloat4E2m1fnX4}) {
    CAPTURE(name(dtype));
    std::array<std::byte, 8> stored{};
    std::array<float, 8> back{};
    encode(dtype, values.data(), 2, stored.data());
    decode(dtype, stored.data(), 2, back.data());
    CHECK(back == values);
    CHECK(bits(back[5]) == 0x80000000U);
  }
  std::uint16_t fp4 = 0;
  encode(Dtype::kFloat4E2m1fnX4, values.data(), 1, reinterpret_cast<std::byte*>(&fp4));
  CHECK(fp4 == 0x71c2);
}

TEST_CASE("views of a dtype as bits extend and truncate", "[dtype]") {
  const std::array<std::uint8_t, 4> raw = {0x80, 0x7f, 0xff, 0x01};
  const auto* in = reinterpret_cast<const std::byte*>(raw.data());
  std::array<std::uint32_t, 4> wide{};
  decode_bits(Dtype::kInt8, in, 4, wide.data());
  CHECK(wide == std::array<std::uint32_t, 4>{0xffffff80U, 0x7fU, 0xffffffffU, 1U});
  decode_bits(Dtype::kUint8, in, 4, wide.data());
  CHECK(wide == std::array<std::uint32_t, 4>{0x80U, 0x7fU, 0xffU, 1U});
  decode_bits(Dtype::kInt16, in, 2, wide.data());
  CHECK(wide[0] == 0x7f80U);
  decode_bits(Dtype::kFloat32, in, 1, wide.data());
  CHECK(wide[0] == 0x01ff7f80U);
  const std::array<std::uint32_t, 2> values = {0x12345678U, 0x100U};
  std::array<std::uint16_t, 2> half{};
  encode_bits(Dtype::kUint16, values.data(), 2, reinterpret_cast<std::byte*>(half.data()));
  CHECK(half == std::array<std::uint16_t, 2>{0x5678, 0x100});
  std::array<std::uint8_t, 2> byte{};
  encode_bits(Dtype::kInt8, values.data(), 2, reinterpret_cast<std::byte*>(byte.data()));
  CHECK(byte == std::array<std::uint8_t, 2>{0x78, 0x00});
  encode_bits(Dtype::kBool, values.data(), 2, reinterpret_cast<std::byte*>(byte.data()));
  CHECK(byte == std::array<std::uint8_t, 2>{1, 1});
}

TEST_CASE("dtype names parse in every spelling and are unique", "[dtype]") {
  std::set<std::string> seen;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CAPTURE(name(dtype));
    CHECK(parse_dtype(name(dtype)) == dtype);
    CHECK(seen.insert(std::string(name(dtype))).second);
    CHECK(is_float(dtype) + is_integer(dtype) + is_packed(dtype) == 1);
    CHECK(size_bytes(dtype) > 0);
  }
  using enum Dtype;
  CHECK(parse_dtype("fp32") == kFloat32);
  CHECK(parse_dtype("f16") == kFloat16);
  CHECK(parse_dtype("bf16") == kBfloat16);
  CHECK(parse_dtype("fp8e3") == kFloat8E3m4);
  CHECK(parse_dtype("float8e4") == kFloat8E4m3);
  CHECK(parse_dtype("fp8e5") == kFloat8E5m2);
  CHECK(parse_dtype("u8") == kUint8);
  CHECK(parse_dtype("bool") == kBool);
  CHECK(parse_dtype("BF16") == kBfloat16);
  CHECK_FALSE(parse_dtype("float64"));
  CHECK_FALSE(parse_dtype(""));
  CHECK_FALSE(parse_dtype("f32 fp32"));
  CHECK(size_bytes(kFloat8E5m2X4) == 4);
  CHECK(size_bytes(kFloat4E2m1fnX4) == 2);
}
