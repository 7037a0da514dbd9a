// Converts elements between each NeuronCore dtype and FP32 with exact rounding.

#include "isa/base/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "isa/base/clones.hpp"
#include "isa/base/names.hpp"

namespace nkisim::isa {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000U;
constexpr std::uint32_t kInfinityBits = 0x7f800000U;
constexpr std::uint32_t kNanBits = 0x7fc00000U;

std::int32_t as_int(std::uint32_t value) { return static_cast<std::int32_t>(value); }

// Round to nearest even of the lowest `Drop` bits; a carry moves into the exponent as it should.
template <int Drop>
std::uint32_t round_bits(std::uint32_t bits) {
  return bits + ((1U << (Drop - 1)) - 1U) + ((bits >> Drop) & 1U);
}

// A codec says how one stored element maps to FP32. All are branch-free so that the loops below
// vectorise. `Storage` is what memory holds; bits are compared as int32 because SSE2 and AVX2 have
// no unsigned comparison.
struct Float32 {
  using Storage = std::uint32_t;
  static float decode(Storage s) { return std::bit_cast<float>(s); }
  static Storage encode(float f) { return std::bit_cast<Storage>(f); }
};

// The store rounds to 10 mantissa bits; stored bits are read as they are.
struct Tfloat32 : Float32 {
  static Storage encode(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    const bool nan = as_int(u & ~kSignBit) > as_int(kInfinityBits);
    return nan ? (u & kSignBit) | kNanBits : round_bits<13>(u) & ~0x1fffU;
  }
};

struct Bfloat16 {
  using Storage = std::uint16_t;
  static float decode(Storage s) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(s) << 16);
  }
  static Storage encode(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    const bool nan = as_int(u & ~kSignBit) > as_int(kInfinityBits);
    return static_cast<Storage>((nan ? (u & kSignBit) | kNanBits : round_bits<16>(u)) >> 16);
  }
};

// Small float with E exponent and M mantissa bits and the IEEE bias. With `Finite` (the "fn" types)
// there is no infinity, the all-ones code is NaN, and overflow becomes NaN as in ml_dtypes
// (assumed: no document says whether the hardware saturates).
template <int E, int M, bool Finite, class Word>
struct SmallFloat {
  using Storage = Word;
  static constexpr int kBias = (1 << (E - 1)) - 1;
  static constexpr std::uint32_t kMagnitude = (1U << (E + M)) - 1U;
  static constexpr std::uint32_t kSmallSign = 1U << (E + M);
  static constexpr std::uint32_t kSpecial = Finite ? kMagnitude : ((1U << E) - 1U) << M;
  static constexpr std::uint32_t kSmallNan = Finite ? kMagnitude : kSpecial | (1U << (M - 1));
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  // Adding this aligns a value below the smallest normal so that its code is in the low bits.
  static constexpr std::uint32_t kAlign = static_cast<std::uint32_t>(127 - kBias + 24 - M) << 23;

  static float decode(Storage s) {
    constexpr float kTiniest =
        std::bit_cast<float>(static_cast<std::uint32_t>(127 + 1 - kBias - M) << 23);
    const std::uint32_t code = s;
    const std::uint32_t magnitude = code & kMagnitude;
    const std::uint32_t shifted = magnitude << (23 - M);
    const float denormal = static_cast<float>(as_int(magnitude)) * kTiniest;
    std::uint32_t bits = shifted + kRebias;
    const std::uint32_t special = Finite ? kNanBits : shifted | kInfinityBits;
    bits = as_int(magnitude) >= as_int(kSpecial) ? special : bits;
    bits = as_int(magnitude) < (1 << M) ? std::bit_cast<std::uint32_t>(denormal) : bits;
    return std::bit_cast<float>(bits | ((code & kSmallSign) << (31 - E - M)));
  }

  static Storage encode(float f) {
    constexpr std::uint32_t kSmallestNormal = kRebias + (1U << 23);
    const auto u = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t magnitude = u & ~kSignBit;
    const float aligned = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAlign);
    const std::uint32_t denormal = std::bit_cast<std::uint32_t>(aligned) - kAlign;
    const std::uint32_t normal =
        (round_bits<23 - M>(magnitude) >> (23 - M)) - (kRebias >> (23 - M));
    std::uint32_t code = as_int(magnitude) < as_int(kSmallestNormal) ? denormal : normal;
    code = as_int(code) >= as_int(kSpecial) ? kSpecial : code;
    code = as_int(magnitude) > as_int(kInfinityBits) ? kSmallNan : code;
    return static_cast<Storage>(code | ((u & kSignBit) >> (31 - E - M)));
  }
};

using Float16 = SmallFloat<5, 10, false, std::uint16_t>;
using Float8E3m4 = SmallFloat<3, 4, false, std::uint8_t>;
using Float8E4m3 = SmallFloat<4, 3, false, std::uint8_t>;
using Float8E4m3fn = SmallFloat<4, 3, true, std::uint8_t>;
using Float8E5m2 = SmallFloat<5, 2, false, std::uint8_t>;

// Power-of-two scale. Rounding as in ml_dtypes: nearest in value, halfway up (below 2^-126 always
// up); zero, negative values, infinity and overflow become NaN.
struct Float8E8m0fnu {
  using Storage = std::uint8_t;
  static float decode(Storage s) {
    const std::uint32_t bits = static_cast<std::uint32_t>(s) << 23;
    const std::uint32_t small = s == 0 ? 0x00400000U : bits;
    return std::bit_cast<float>(s == 0xff ? kNanBits : small);
  }
  static Storage encode(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t rounded = as_int(u) <= 0x00400000 ? 0U : (u + 0x00400000U) >> 23;
    return static_cast<Storage>(as_int(u) <= 0 || as_int(u) >= 0x7f400000 ? 0xffU : rounded);
  }
};

// Nearest integer, ties to even, without depending on the rounding instructions of the host.
float round_to_integer(float f) {
  constexpr float kUnitSpacing = 8388608.0F;  // from here on every float is an integer
  const float shift = f < 0.0F ? -kUnitSpacing : kUnitSpacing;
  const float rounded = (f + shift) - shift;
  return f > -kUnitSpacing && f < kUnitSpacing ? rounded : f;
}

// 8- and 16-bit integers: both ends are exact in FP32. NaN becomes 0 (assumed).
template <class T>
struct SmallInteger {
  using Storage = T;
  static float decode(T s) { return static_cast<float>(static_cast<std::int32_t>(s)); }
  static T encode(float f) {
    constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
    constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
    float r = round_to_integer(f);
    r = r < kLow ? kLow : r;
    r = r > kHigh ? kHigh : r;
    r = f != f ? 0.0F : r;
    return static_cast<T>(static_cast<std::int32_t>(r));
  }
};

constexpr float kTwo31 = 2147483648.0F;
constexpr float kBelowTwo31 = 2147483520.0F;

struct Int32 {
  using Storage = std::int32_t;
  static float decode(Storage s) { return static_cast<float>(s); }
  static Storage encode(float f) {
    float r = round_to_integer(f);
    r = r < -kTwo31 ? -kTwo31 : r;
    r = r > kBelowTwo31 ? kBelowTwo31 : r;
    r = f != f ? 0.0F : r;
    const auto converted = static_cast<Storage>(r);
    return f >= kTwo31 ? std::numeric_limits<Storage>::max() : converted;
  }
};

struct Uint32 {
  using Storage = std::uint32_t;
  static float decode(Storage s) { return static_cast<float>(s); }
  static Storage encode(float f) {
    float r = round_to_integer(f);
    r = r > 0.0F ? r : 0.0F;  // also NaN
    const bool high = r >= kTwo31;
    r = high ? r - kTwo31 : r;
    r = r > kBelowTwo31 ? kBelowTwo31 : r;
    const auto converted = static_cast<Storage>(static_cast<std::int32_t>(r));
    const Storage wide = high ? converted ^ kSignBit : converted;
    return f >= 2.0F * kTwo31 ? 0xffffffffU : wide;
  }
};

// Only its bytes are computed with; as floats values are for reports.
struct Int64 {
  using Storage = std::int64_t;
  static float decode(Storage s) { return static_cast<float>(s); }
  static Storage encode(float f) {
    constexpr float kTwo63 = 9223372036854775808.0F;
    if (f != f) return 0;
    if (f >= kTwo63) return std::numeric_limits<Storage>::max();
    if (f < -kTwo63) return std::numeric_limits<Storage>::min();
    return static_cast<Storage>(round_to_integer(f));
  }
};

struct Bool {
  using Storage = std::uint8_t;
  static float decode(Storage s) { return s != 0 ? 1.0F : 0.0F; }
  static Storage encode(float f) { return f != 0.0F ? 1 : 0; }
};

template <class Codec>
NKISIM_CLONES void decode_loop(const std::byte* __restrict in, std::size_t n,
                               float* __restrict out) {
  using Storage = typename Codec::Storage;
  for (std::size_t i = 0; i < n; ++i) {
    Storage s;
    std::memcpy(&s, in + i * sizeof(Storage), sizeof(Storage));
    out[i] = Codec::decode(s);
  }
}

template <class Codec>
NKISIM_CLONES void encode_loop(const float* __restrict in, std::size_t n,
                               std::byte* __restrict out) {
  using Storage = typename Codec::Storage;
  for (std::size_t i = 0; i < n; ++i) {
    const Storage s = Codec::encode(in[i]);
    std::memcpy(out + i * sizeof(Storage), &s, sizeof(Storage));
  }
}

template <>
void decode_loop<Float32>(const std::byte* __restrict in, std::size_t n, float* __restrict out) {
  if (n != 0) std::memcpy(out, in, n * sizeof(float));
}

template <>
void encode_loop<Float32>(const float* __restrict in, std::size_t n, std::byte* __restrict out) {
  if (n != 0) std::memcpy(out, in, n * sizeof(float));
}

// Four FP8 elements per 32-bit word, the first in the lowest byte.
template <class Codec>
void decode_four(const std::byte* __restrict in, std::size_t n, float* __restrict out) {
  decode_loop<Codec>(in, 4 * n, out);
}

template <class Codec>
void encode_four(const float* __restrict in, std::size_t n, std::byte* __restrict out) {
  encode_loop<Codec>(in, 4 * n, out);
}

float decode_fp4(unsigned code) {
  constexpr std::array<float, 8> kValues = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kValues[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Saturates at 6; NaN becomes a zero of the opposite sign, as in ml_dtypes (assumed).
unsigned encode_fp4(float f) {
  const bool negative = std::bit_cast<std::int32_t>(f) < 0;
  if (f != f) return negative ? 0U : 8U;
  const float m = negative ? -f : f;
  const unsigned steps = static_cast<unsigned>(m > 0.25F) + static_cast<unsigned>(m >= 0.75F) +
                         static_cast<unsigned>(m > 1.25F) + static_cast<unsigned>(m >= 1.75F) +
                         static_cast<unsigned>(m > 2.5F) + static_cast<unsigned>(m >= 3.5F) +
                         static_cast<unsigned>(m > 5.0F);
  return steps | (negative ? 8U : 0U);
}

// Four FP4 elements per 16-bit word, the first in the lowest nibble (assumed).
void decode_fp4x4(const std::byte* __restrict in, std::size_t n, float* __restrict out) {
  static const std::array<std::array<float, 2>, 256> kPairs = [] {
    std::array<std::array<float, 2>, 256> pairs;
    for (unsigned i = 0; i < 256; ++i) pairs[i] = {decode_fp4(i & 15U), decode_fp4(i >> 4)};
    return pairs;
  }();
  for (std::size_t i = 0; i < 2 * n; ++i) {
    std::memcpy(out + 2 * i, &kPairs[std::to_integer<std::size_t>(in[i])], 2 * sizeof(float));
  }
}

void encode_fp4x4(const float* __restrict in, std::size_t n, std::byte* __restrict out) {
  for (std::size_t i = 0; i < 2 * n; ++i) {
    out[i] = static_cast<std::byte>(encode_fp4(in[2 * i]) | (encode_fp4(in[2 * i + 1]) << 4));
  }
}

// Signed storage extends with its sign, everything else with zeros.
template <class Storage>
NKISIM_CLONES void widen_loop(const std::byte* __restrict in, std::size_t n,
                              std::uint32_t* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    Storage s;
    std::memcpy(&s, in + i * sizeof(Storage), sizeof(Storage));
    if constexpr (std::is_signed_v<Storage>) {
      out[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(s));
    } else {
      out[i] = s;
    }
  }
}

template <class Storage>
NKISIM_CLONES void narrow_loop(const std::uint32_t* __restrict in, std::size_t n,
                               std::byte* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto s = static_cast<Storage>(in[i]);
    std::memcpy(out + i * sizeof(Storage), &s, sizeof(Storage));
  }
}

void narrow_bool(const std::uint32_t* __restrict in, std::size_t n, std::byte* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::byte{in[i] != 0};
}

enum class Kind : std::uint8_t { kFloat, kInteger, kPacked };

struct Row {
  Dtype dtype;
  std::string_view name;
  std::string_view aliases;  // separated by blanks
  Kind kind;
  void (*decode)(const std::byte*, std::size_t, float*);
  void (*encode)(const float*, std::size_t, std::byte*);
  void (*widen)(const std::byte*, std::size_t, std::uint32_t*);
  void (*narrow)(const std::uint32_t*, std::size_t, std::byte*);
};

template <class Codec>
Row row(Dtype dtype, std::string_view text, std::string_view aliases, Kind kind) {
  using Storage = typename Codec::Storage;
  return {dtype,
          text,
          aliases,
          kind,
          decode_loop<Codec>,
          encode_loop<Codec>,
          widen_loop<Storage>,
          narrow_loop<Storage>};
}

template <class Codec>
Row row_of_four(Dtype dtype, std::string_view text, std::string_view aliases) {
  Row r = row<Codec>(dtype, text, aliases, Kind::kPacked);
  r.decode = decode_four<Codec>;
  r.encode = encode_four<Codec>;
  r.widen = widen_loop<std::uint32_t>;
  r.narrow = narrow_loop<std::uint32_t>;
  return r;
}

Row row_of_bool() {
  Row r = row<Bool>(Dtype::kBool, "bool_", "bool b1 pred", Kind::kInteger);
  r.narrow = narrow_bool;
  return r;
}

const std::array<Row, kDtypeCount>& rows() {
  using enum Dtype;
  static const std::array<Row, kDtypeCount> kRows = {
      row<Float32>(kFloat32, "float32", "f32 fp32 float", Kind::kFloat),
      row<Tfloat32>(kTfloat32, "tfloat32", "tf32 fp32r float32r", Kind::kFloat),
      row<Bfloat16>(kBfloat16, "bfloat16", "bf16", Kind::kFloat),
      row<Float16>(kFloat16, "float16", "f16 fp16 half", Kind::kFloat),
      row<Float8E3m4>(kFloat8E3m4, "float8_e3m4", "float8e3 fp8e3 fp8_e3m4 f8e3m4", Kind::kFloat),
      row<Float8E4m3>(kFloat8E4m3, "float8_e4m3", "float8e4 fp8e4 fp8_e4m3 f8e4m3", Kind::kFloat),
      row<Float8E4m3fn>(kFloat8E4m3fn, "float8_e4m3fn", "float8e4fn fp8e4fn fp8_e4m3fn f8e4m3fn",
                        Kind::kFloat),
      row<Float8E5m2>(kFloat8E5m2, "float8_e5m2", "float8e5 fp8e5 fp8_e5m2 f8e5m2", Kind::kFloat),
      row<Float8E8m0fnu>(kFloat8E8m0fnu, "float8_e8m0fnu", "float8e8 fp8e8 fp8_e8m0fnu f8e8m0fnu",
                         Kind::kFloat),
      row_of_four<Float8E5m2>(kFloat8E5m2X4, "float8_e5m2_x4", "fp8e5_x4 fp8_e5m2_x4"),
      row_of_four<Float8E4m3fn>(kFloat8E4m3fnX4, "float8_e4m3fn_x4", "fp8e4fn_x4 fp8_e4m3fn_x4"),
      Row{kFloat4E2m1fnX4, "float4_e2m1fn_x4", "fp4_x4 fp4_e2m1fn_x4", Kind::kPacked, decode_fp4x4,
          encode_fp4x4, widen_loop<std::uint16_t>, narrow_loop<std::uint16_t>},
      row<SmallInteger<std::int8_t>>(kInt8, "int8", "i8 s8", Kind::kInteger),
      row<SmallInteger<std::uint8_t>>(kUint8, "uint8", "u8", Kind::kInteger),
      row<SmallInteger<std::int16_t>>(kInt16, "int16", "i16 s16", Kind::kInteger),
      row<SmallInteger<std::uint16_t>>(kUint16, "uint16", "u16", Kind::kInteger),
      row<Int32>(kInt32, "int32", "i32 s32 int", Kind::kInteger),
      row<Uint32>(kUint32, "uint32", "u32", Kind::kInteger),
      row_of_bool(),
      row<Int64>(kInt64, "int64", "i64 s64", Kind::kInteger),
  };
  return kRows;
}

const Row& row_of(Dtype dtype) { return rows().at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::string_view name(Dtype dtype) { return row_of(dtype).name; }
bool is_float(Dtype dtype) { return row_of(dtype).kind == Kind::kFloat; }
bool is_integer(Dtype dtype) { return row_of(dtype).kind == Kind::kInteger; }
bool is_packed(Dtype dtype) { return row_of(dtype).kind == Kind::kPacked; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  const std::string lower = lower_case(text);
  for (const Row& r : rows()) {
    if (r.name == lower || contains_word(r.aliases, lower)) return r.dtype;
  }
  return std::nullopt;
}

void decode(Dtype dtype, const std::byte* in, std::size_t count, float* out) {
  row_of(dtype).decode(in, count, out);
}

void encode(Dtype dtype, const float* in, std::size_t count, std::byte* out) {
  row_of(dtype).encode(in, count, out);
}

float decode_one(Dtype dtype, const std::byte* in) {
  float value = 0.0F;
  decode(dtype, in, 1, &value);
  return value;
}

void encode_one(Dtype dtype, float value, std::byte* out) { encode(dtype, &value, 1, out); }

float round_to(Dtype dtype, float value) {
  std::array<std::byte, 8> stored;
  encode_one(dtype, value, stored.data());
  return decode_one(dtype, stored.data());
}

void decode_bits(Dtype dtype, const std::byte* in, std::size_t count, std::uint32_t* out) {
  row_of(dtype).widen(in, count, out);
}

void encode_bits(Dtype dtype, const std::uint32_t* in, std::size_t count, std::byte* out) {
  row_of(dtype).narrow(in, count, out);
}

}  // namespace nkisim::isa
