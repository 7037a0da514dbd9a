// Declares which numbers a cast cannot keep: those beyond the range of the dtype that it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "isa/base/dtype.hpp"

namespace nkisim::isa {

/// The first of `count` values, from `begin` on, that a cast to `dtype` makes an infinity, a
/// NaN, the nearest end of the range or (a NaN to an integer) 0; `count` if there is none. Rounding
/// within the range, to either end of it too, is no overflow; nor are infinities where the dtype
/// has them. bfloat16 and tfloat32 have the range of FP32, bool_ asks only for zero, and packed
/// types are never cast: none is found. FP32 has no 2^31 - 1 and no 2^32 - 1: 2^31 and 2^32 stand
/// for them.
[[nodiscard]] std::size_t find_overflow(Dtype dtype, const float* values, std::size_t count,
                                        std::size_t begin = 0);
/// As "300, which int8 (-128 to 127) cannot hold: it becomes 127".
[[nodiscard]] std::string describe_overflow(Dtype dtype, float value);
/// As "10000000000, which int32 (-2^31 to 2^31 - 1) cannot hold: it wraps to 1410065408".
[[nodiscard]] std::string describe_wrap(std::int64_t value);
/// The first of `count` results that are integers beyond 2^24, where FP32 has no longer all of
/// them; `count` if there is none. Multiples of 4096, such as limits and shifted numbers, are not
/// meant.
[[nodiscard]] std::size_t find_beyond_integers(const float* values, std::size_t count);
/// As "50051000: the engine computes in FP32, which lacks integers beyond 16777216".
[[nodiscard]] std::string describe_rounded(float value);

}  // namespace nkisim::isa
