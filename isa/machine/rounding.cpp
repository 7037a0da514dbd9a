// Rounds stored results stochastically, and seeds the random generators for it.

#include "isa/machine/rounding.hpp"

#include <algorithm>
#include <cmath>

#include "isa/base/xorwow.hpp"

namespace nkisim::isa {
namespace {

struct Format {
  int mantissa = 0;      // stored bits
  int min_exponent = 0;  // of the smallest normal value
};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kTfloat32:
      return {10, -126};
    case Dtype::kBfloat16:
      return {7, -126};
    case Dtype::kFloat16:
      return {10, -14};
    case Dtype::kFloat8E3m4:
      return {4, -2};
    case Dtype::kFloat8E4m3:
    case Dtype::kFloat8E4m3fn:
      return {3, -6};
    case Dtype::kFloat8E5m2:
      return {2, -14};
    default:
      return {};
  }
}

}  // namespace

bool has_rounding_mode(Dtype dtype) { return format_of(dtype).mantissa != 0; }

float round_stochastically(Dtype dtype, float value, std::uint32_t random) {
  if (!std::isfinite(value) || value == 0.0F) return value;
  const Format format = format_of(dtype);
  int exponent = 0;
  (void)std::frexp(value, &exponent);  // |value| = [0.5, 1) * 2^exponent
  const int ulp = std::max(exponent - 1, format.min_exponent) - format.mantissa;
  // FP32 has at most 23 + 126 bits below its exponent: all of this is exact in double.
  const double scaled = std::ldexp(static_cast<double>(value), -ulp);
  const double cut = std::trunc(scaled);
  const double rest = std::fabs(scaled - cut);
  const double threshold = static_cast<double>(unit_float(random));
  const double away = rest > threshold ? std::copysign(1.0, scaled) : 0.0;
  return static_cast<float>(std::ldexp(cut + away, ulp));
}

void seed_rounding(CoreState& state, std::uint32_t seed, int core) {
  state.rounding.assign(static_cast<std::size_t>(kEngineCount) * kPartitions, {});
  for (std::size_t i = 0; i < state.rounding.size(); ++i) {
    seed_xorwow(state.rounding[i], seed, static_cast<std::uint32_t>(core), i);
  }
}

Tile<float> CastWatch::rounded(const TensorRef& ref, const Tile<float>& values) {
  const Tile<float> out = make<float>(values.rows, values.columns);
  for (std::int64_t r = 0; r < values.rows; ++r) {
    const auto lane = static_cast<std::size_t>(engine_) * kPartitions +
                      static_cast<std::size_t>((ref.partition + r) % kPartitions);
    for (std::int64_t c = 0; c < values.columns; ++c) {
      out.row(r)[c] =
          round_stochastically(ref.dtype, values.row(r)[c], next_xorwow(state_.rounding[lane]));
    }
  }
  return out;
}

bool CastWatch::rounds(const TensorRef& ref) const {
  return !state_.rounding.empty() && has_rounding_mode(ref.dtype);
}

}  // namespace nkisim::isa
