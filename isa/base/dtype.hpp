// Declares the element types (dtypes) of the NeuronCore and converts between them with exact
// rounding.
//
// Sources: docs/values.md. Every narrowing float cast rounds to nearest, ties to even; float to
// integer rounds to nearest even and saturates; same-dtype copies move bits untouched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nkisim::isa {

/// Storage type of one element. The order is part of the binary trace format: append only.
enum class Dtype : std::uint8_t {
  kFloat32,
  kTfloat32,  // 32-bit storage, 10-bit mantissa
  kBfloat16,
  kFloat16,
  kFloat8E3m4,    // hardware "fp8e3"; no NKI name
  kFloat8E4m3,    // IEEE-like: infinity and NaN, maximum 240
  kFloat8E4m3fn,  // no infinity, maximum 448
  kFloat8E5m2,
  kFloat8E8m0fnu,  // MX scale: 2^(x-127), 0xff is NaN
  kFloat8E5m2X4,   // four packed in 32 bits
  kFloat8E4m3fnX4,
  kFloat4E2m1fnX4,  // four packed in 16 bits
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kBool,   // stored as uint8, 0 or 1
  kInt64,  // of scalars: loaded, stored and moved, never computed with by an engine
};
inline constexpr int kDtypeCount = 20;

namespace detail {
inline constexpr std::array<std::uint8_t, kDtypeCount> kSizeBytes = {4, 4, 2, 2, 1, 1, 1, 1, 1, 4,
                                                                     4, 2, 1, 1, 2, 2, 4, 4, 1, 8};
}
/// Storage bytes of one (possibly packed) element.
[[nodiscard]] inline int size_bytes(Dtype dtype) {
  return detail::kSizeBytes[static_cast<std::size_t>(dtype)];
}
/// Name as in nki.language ("bfloat16", "float8_e4m3", ...).
[[nodiscard]] std::string_view name(Dtype dtype);
/// Accepts nki.language names and the profiler's ("fp32", "bf16", "fp8e4", ...); empty if unknown.
[[nodiscard]] std::optional<Dtype> parse_dtype(std::string_view text);
[[nodiscard]] bool is_float(Dtype dtype);    // includes fp8, not the packed x4 types
[[nodiscard]] bool is_integer(Dtype dtype);  // includes bool
[[nodiscard]] bool is_packed(Dtype dtype);   // the x4 types

/// Decodes `count` contiguous elements to FP32, exactly (int32/uint32: rounded to nearest even).
/// A packed element yields four values, so `out` holds 4*count of them.
void decode(Dtype dtype, const std::byte* in, std::size_t count, float* out);
/// Encodes FP32 values with the documented rounding; `out` receives `count` elements (packed: count
/// elements from 4*count values). Overflow and NaN rules per dtype: docs/values.md.
void encode(Dtype dtype, const float* in, std::size_t count, std::byte* out);

/// Single-value forms of the two above (not packed types).
[[nodiscard]] float decode_one(Dtype dtype, const std::byte* in);
void encode_one(Dtype dtype, float value, std::byte* out);
/// `value` rounded to `dtype` and back.
[[nodiscard]] float round_to(Dtype dtype, float value);

/// Integer views for bitvec and exact integer arithmetic: element bits zero- or sign-extended. (Of
/// int64 the low 32 bits; ops that take it read its bytes.)
void decode_bits(Dtype dtype, const std::byte* in, std::size_t count, std::uint32_t* out);
void encode_bits(Dtype dtype, const std::uint32_t* in, std::size_t count, std::byte* out);

}  // namespace nkisim::isa
