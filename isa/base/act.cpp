// Evaluates each activation function of the Scalar engine over an array of floats.

#include "isa/base/act.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "isa/base/act_tested.hpp"
#include "isa/base/clones.hpp"
#include "isa/base/fp_math.hpp"
#include "isa/base/names.hpp"

namespace nkisim::isa {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kPi = 3.14159274F;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

// Infinity times an underflowed factor would be NaN where the limit is 0 (or x).
[[gnu::always_inline]] inline double bounded(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  x = x < -kMax ? -kMax : x;
  return x > kMax ? kMax : x;
}

// x * sigmoid(slope * x).
[[gnu::always_inline]] inline double scaled_silu(double x, double slope) {
  const double below = x < -std::numeric_limits<float>::max() ? -0x1p100 : x;
  return below * fp::sigmoid(slope * below);
}

// Its derivative s + slope x s (1 - s), with 1 - s computed as e / (1 + e) where s is near 1.
[[gnu::always_inline]] inline double scaled_silu_dx(double x, double slope) {
  const double y = slope * bounded(x);
  const double e = fp::exp(-fp::magnitude(y));
  const double larger = 1.0 / (1.0 + e);
  const double smaller = e * larger;
  return (y < 0.0 ? smaller : larger) + y * (larger * smaller);
}

// erfc(-x / sqrt 2) / 2, the normal distribution function, given gauss = e^(-x^2 / 2).
[[gnu::always_inline]] inline double normal_cdf(double x, double gauss) {
  double a = fp::magnitude(x) * kSqrtHalf;
  a = a > 28.0 ? 28.0 : a;
  const double tail = 0.5 * gauss * fp::erfc_scaled(a);
  return x < 0.0 ? tail : 1.0 - tail;
}

[[gnu::always_inline]] inline double gelu(double x) {
  const double below = x < -std::numeric_limits<float>::max() ? -0x1p100 : x;
  return below * normal_cdf(below, fp::exp(-0.5 * below * below));
}

[[gnu::always_inline]] inline double gelu_dx(double x) {
  const double b = bounded(x);
  const double gauss = fp::exp(-0.5 * b * b);
  return normal_cdf(b, gauss) + b * gauss * kInvSqrtTwoPi;
}

[[gnu::always_inline]] inline double gelu_tanh(double x) {
  const double below = x < -std::numeric_limits<float>::max() ? -0x1p100 : x;
  const double y = kSqrtTwoOverPi * (below + 0.044715 * (below * below * below));
  return below * fp::sigmoid(2.0 * y);  // (1 + tanh y) / 2, without its cancellation
}

[[gnu::always_inline]] inline double softplus(double x) {
  return (x <= 0.0 ? 0.0 : x) + fp::log1p(fp::exp(-fp::magnitude(x)));
}

// tanh(ln(1 + e)) is e (e + 2) / (e (e + 2) + 2).
[[gnu::always_inline]] inline double mish(double x) {
  const double below = x < -std::numeric_limits<float>::max() ? -0x1p100 : x;
  const double e = fp::exp(below > 300.0 ? 300.0 : below);
  const double t = e * (e + 2.0);
  return below * (t / (t + 2.0));
}

#define NKISIM_ACT(id, text, aliases, low, high, doc, ...)                                  \
  struct Act_##id {                                                                         \
    [[gnu::always_inline]] static inline double eval(double x, [[maybe_unused]] double p) { \
      return __VA_ARGS__;                                                                   \
    }                                                                                       \
  };
#include "isa/base/act.def"

template <class F>
NKISIM_CLONES void act_loop(const float* in, float param, float* out, std::size_t n) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto p = static_cast<double>(param);
  NKISIM_IVDEP
  for (std::size_t i = 0; i < n; ++i) {
    const auto r = static_cast<float>(F::eval(static_cast<double>(in[i]), p));
    out[i] = r != r ? kNan : r;
  }
}

void copy_loop(const float* in, float /*param*/, float* out, std::size_t n) {
  std::copy(in, in + n, out);
}

void exp_loop(const float* in, float /*param*/, float* out, std::size_t n) {
  tested_exp(in, out, n, [](const float* x, float* y, std::size_t count) {
    act_loop<Act_kExp>(x, 0, y, count);
  });
}

void tanh_loop(const float* in, float /*param*/, float* out, std::size_t n) {
  tested_tanh(in, out, n, [](const float* x, float* y, std::size_t count) {
    act_loop<Act_kTanh>(x, 0, y, count);
  });
}

struct Row {
  ActTraits traits;
  void (*loop)(const float*, float, float*, std::size_t);
};

const std::array<Row, kActFnCount>& rows() {
  static const std::array<Row, kActFnCount> kRows = [] {
    std::array<Row, kActFnCount> table{
#define NKISIM_ACT(id, text, aliases, low, high, doc, ...) \
  Row{{text, aliases, doc, low, high, false}, act_loop<Act_##id>},
#include "isa/base/act.def"
    };
    table[static_cast<std::size_t>(ActFn::kCopy)].loop = copy_loop;
    table[static_cast<std::size_t>(ActFn::kExp)].loop = exp_loop;
    table[static_cast<std::size_t>(ActFn::kTanh)].loop = tanh_loop;
    table[static_cast<std::size_t>(ActFn::kReciprocal)].traits.either_sign = true;
    return table;
  }();
  return kRows;
}

const Row& row_of(ActFn fn) { return rows().at(static_cast<std::size_t>(fn)); }

}  // namespace

const ActTraits& traits(ActFn fn) { return row_of(fn).traits; }
std::string_view name(ActFn fn) { return traits(fn).name; }

std::optional<ActFn> parse_act(std::string_view text) {
  const std::string lower = lower_case(text);
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const ActTraits& t = rows()[i].traits;
    if (t.name == lower || contains_word(t.aliases, lower)) return static_cast<ActFn>(i);
  }
  return std::nullopt;
}

bool in_valid_range(ActFn fn, float x) {
  const ActTraits& t = traits(fn);
  const float v = t.either_sign ? fp::magnitude(x) : x;
  return v >= t.valid_low && v <= t.valid_high;
}

void apply(ActFn fn, const float* in, float param, float* out, std::size_t n) {
  row_of(fn).loop(in, param, out, n);
}

}  // namespace nkisim::isa
