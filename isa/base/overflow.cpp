// Implements overflow.hpp: the ranges that casts keep, and the search for values beyond them.

#include "isa/base/overflow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "isa/base/clones.hpp"

namespace nkisim::isa {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

// The numbers that a cast to `dtype` keeps up to rounding: low <= x <= high. Beyond |x| = most
// nothing is lost (an infinity stays one). `nan`: a NaN is lost. `range` is how messages put it.
struct Range {
  Dtype dtype;
  float low, high, most;
  bool nan;
  const char* range;
};

// Halfway between the largest value and the next step of its spacing decides. A tie goes to the
// even code: up, out of the range, everywhere but in float8_e4m3fn (464) and at the low ends of
// integers. Each bound is the last number that is kept.
constexpr Range kRanges[] = {
    {Dtype::kFloat16, -65519.996F, 65519.996F, kLargest, false, "-65504 to 65504"},
    {Dtype::kFloat8E3m4, -15.749999F, 15.749999F, kLargest, false, "-15.5 to 15.5"},
    {Dtype::kFloat8E4m3, -247.99998F, 247.99998F, kLargest, false, "-240 to 240"},
    {Dtype::kFloat8E4m3fn, -464.0F, 464.0F, kInfinity, false, "-448 to 448"},
    {Dtype::kFloat8E5m2, -61439.996F, 61439.996F, kLargest, false, "-57344 to 57344"},
    {Dtype::kFloat8E8m0fnu, kSmallest, 2.5521175e38F, kInfinity, false, "2^-127 to 2^127"},
    {Dtype::kInt8, -128.5F, 127.49999F, kInfinity, true, "-128 to 127"},
    {Dtype::kUint8, -0.5F, 255.49998F, kInfinity, true, "0 to 255"},
    {Dtype::kInt16, -32768.5F, 32767.498F, kInfinity, true, "-32768 to 32767"},
    {Dtype::kUint16, -0.5F, 65535.496F, kInfinity, true, "0 to 65535"},
    {Dtype::kInt32, -2147483648.0F, 2147483648.0F, kInfinity, true, "-2^31 to 2^31 - 1"},
    {Dtype::kUint32, -0.5F, 4294967296.0F, kInfinity, true, "0 to 2^32 - 1"},
};

const Range* range_of(Dtype dtype) {
  const auto* found = std::find_if(std::begin(kRanges), std::end(kRanges),
                                   [&](const Range& r) { return r.dtype == dtype; });
  return found == std::end(kRanges) ? nullptr : found;
}

bool lost(const Range& r, float x) {
  return (x > r.high && x <= r.most) || (x < r.low && x >= -r.most) || (r.nan && x != x);
}

// True if any value is lost: without a branch, so that it vectorises.
NKISIM_CLONES bool any_lost(float low, float high, float most, bool nan, const float* in,
                            std::size_t count) {
  const int of_nan = nan ? 1 : 0;
  int any = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = in[i];
    any |= static_cast<int>(x > high) & static_cast<int>(x <= most);
    any |= static_cast<int>(x < low) & static_cast<int>(x >= -most);
    any |= static_cast<int>(x != x) & of_nan;
  }
  return any != 0;
}

std::string text_of(float x) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.9g", static_cast<double>(x));
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

std::size_t find_overflow(Dtype dtype, const float* values, std::size_t count, std::size_t begin) {
  const Range* r = range_of(dtype);
  if (r == nullptr || begin >= count) return count;
  if (!any_lost(r->low, r->high, r->most, r->nan, values + begin, count - begin)) return count;
  const float* at =
      std::find_if(values + begin, values + count, [&](float x) { return lost(*r, x); });
  return static_cast<std::size_t>(at - values);
}

std::string describe_overflow(Dtype dtype, float value) {
  return text_of(value) + ", which " + std::string(name(dtype)) + " (" + range_of(dtype)->range +
         ") cannot hold: it becomes " + text_of(round_to(dtype, value));
}

std::string describe_wrap(std::int64_t value) {
  return std::to_string(value) + ", which int32 (" + range_of(Dtype::kInt32)->range +
         ") cannot hold: it wraps to " + std::to_string(static_cast<std::int32_t>(value));
}

std::size_t find_beyond_integers(const float* values, std::size_t count) {
  constexpr float kAll = 16777216.0F, kMost = 4294967296.0F, kCoarse = 4096.0F;
  const float* at = std::find_if(values, values + count, [](float x) {
    const float size = std::fabs(x);
    return size > kAll && size < kMost && std::fmod(size, kCoarse) != 0.0F;
  });
  return static_cast<std::size_t>(at - values);
}

std::string describe_rounded(float value) {
  return text_of(value) + ": the engine computes in FP32, which lacks integers beyond 16777216";
}

}  // namespace nkisim::isa
