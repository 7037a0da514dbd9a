// Tests activation functions against long double libm, and against a stored hash of their bits.
#include "isa/base/act.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

using Real = long double;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kSlope = 0.3F;
constexpr Real kPi = 3.14159265358979323846264338327950288L;

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real scaled_silu_dx(Real x, Real slope) {
  const Real s = sigmoid(slope * x);
  return s + slope * x * s * sigmoid(-slope * x);
}

// The definitions of docs/values.md, section 7.
const std::map<ActFn, Real (*)(Real)> kDefinitions = {
    {ActFn::kCopy, [](Real x) -> Real { return x; }},
    {ActFn::kSquare, [](Real x) -> Real { return x * x; }},
    {ActFn::kAbs, [](Real x) -> Real { return std::fabs(x); }},
    {ActFn::kSign, [](Real x) -> Real { return static_cast<Real>((x > 0) - (x < 0)); }},
    {ActFn::kRelu, [](Real x) -> Real { return x > 0 ? x : 0; }},
    {ActFn::kPrelu, [](Real x) -> Real { return x >= 0 ? x : static_cast<Real>(kSlope) * x; }},
    {ActFn::kSigmoid, [](Real x) -> Real { return sigmoid(x); }},
    {ActFn::kTanh, [](Real x) -> Real { return std::tanh(x); }},
    {ActFn::kExp, [](Real x) -> Real { return std::exp(x); }},
    {ActFn::kLog, [](Real x) -> Real { return std::log(x); }},
    {ActFn::kSqrt, [](Real x) -> Real { return std::sqrt(x); }},
    {ActFn::kRsqrt, [](Real x) -> Real { return 1 / std::sqrt(x); }},
    {ActFn::kReciprocal, [](Real x) -> Real { return 1 / x; }},
    {ActFn::kSin, [](Real x) -> Real { return std::sin(x); }},
    {ActFn::kArctan, [](Real x) -> Real { return std::atan(x); }},
    {ActFn::kErf, [](Real x) -> Real { return std::erf(x); }},
    {ActFn::kErfDx, [](Real x) -> Real { return 2 / std::sqrt(kPi) * std::exp(-x * x); }},
    {ActFn::kGelu, [](Real x) -> Real { return x / 2 * std::erfc(-x / std::sqrt(2.0L)); }},
    {ActFn::kGeluApprxTanh,
     [](Real x) -> Real {
       return x * sigmoid(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x));
     }},
    {ActFn::kGeluApprxSigmoid, [](Real x) -> Real { return x * sigmoid(1.702L * x); }},
    {ActFn::kGeluDx,
     [](Real x) -> Real {
       return std::erfc(-x / std::sqrt(2.0L)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
     }},
    {ActFn::kGeluApprxSigmoidDx, [](Real x) -> Real { return scaled_silu_dx(x, 1.702L); }},
    {ActFn::kSilu, [](Real x) -> Real { return x * sigmoid(x); }},
    {ActFn::kSiluDx, [](Real x) -> Real { return scaled_silu_dx(x, 1); }},
    {ActFn::kSoftplus,
     [](Real x) -> Real { return std::log1p(std::exp(-std::fabs(x))) + (x > 0 ? x : 0); }},
    {ActFn::kMish, [](Real x) -> Real { return x * std::tanh(std::log1p(std::exp(x))); }},
};

Real reference(ActFn fn, Real x) {
  const auto it = kDefinitions.find(fn);
  if (it == kDefinitions.end()) FAIL("a function without a reference");
  return it->second(x);
}

bool is_derivative(ActFn fn) {
  return fn == ActFn::kGeluDx || fn == ActFn::kSiluDx || fn == ActFn::kGeluApprxSigmoidDx;
}

// Distance in units of the last FP32 place of the exact value.
Real ulps(float result, Real exact) {
  if (std::isnan(result)) return 1e9L;
  constexpr Real kOverflow = 0x1.ffffffp127L;  // rounds to infinity from here on
  if (std::fabs(exact) >= kOverflow) return result == (exact > 0 ? kInf : -kInf) ? 0 : 1e9L;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const Real unit = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return std::fabs(static_cast<Real>(result) - exact) / unit;
}

// Floats of every exponent and both signs, and a fine grid where the functions bend.
std::vector<float> samples() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < 0x100000000U; bits += 25013) {
    const float f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(f)) x.push_back(f);
  }
  for (int i = -60000; i <= 60000; ++i) x.push_back(static_cast<float>(i) * 0.000313F);
  for (int i = -2200; i <= 2200; ++i) x.push_back(static_cast<float>(i) * 0.05F);
  for (const float f :
       {0.0F, 1.0F, 2.0F, 0.41421356F, 2.4142136F, 1.57079637F, 3.14159274F, 0.015625F}) {
    for (const float s : {f, std::nextafter(f, kInf), std::nextafter(f, -kInf)}) {
      x.push_back(s);
      x.push_back(-s);
    }
  }
  return x;
}

float one(ActFn fn, float x) {
  float out = 0;
  apply(fn, &x, kSlope, &out, 1);
  return out;
}

std::uint64_t hash(const std::vector<float>& values) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const float f : values) h = (h ^ std::bit_cast<std::uint32_t>(f)) * 0x100000001b3U;
  return h;
}

}  // namespace

TEST_CASE("activations are within 0.51 ulp over their valid range", "[act]") {
  const std::vector<float> x = samples();
  std::vector<float> y(x.size());
  for (int i = 0; i < kActFnCount; ++i) {
    const auto fn = static_cast<ActFn>(i);
    CAPTURE(name(fn));
    apply(fn, x.data(), kSlope, y.data(), x.size());
    Real worst = 0;
    std::size_t checked = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (!in_valid_range(fn, x[j])) continue;
      ++checked;
      const Real exact = reference(fn, static_cast<Real>(x[j]));
      Real error = ulps(y[j], exact);
      if (is_derivative(fn) && std::fabs(static_cast<Real>(y[j]) - exact) < 1e-12L) error = 0;
      if (error > 0.51L) {
        CAPTURE(x[j], y[j], static_cast<double>(exact));
        REQUIRE(static_cast<double>(error) <= 0.51);
      }
      worst = std::max(worst, error);
    }
    CHECK(checked > 10000);
    if (fn != ActFn::kCopy && fn != ActFn::kAbs && fn != ActFn::kSign && fn != ActFn::kRelu) {
      CHECK(static_cast<double>(worst) > 0.4);  // the comparison itself is alive
    }
  }
}

TEST_CASE("activations outside their valid range stay mathematical", "[act]") {
  using enum ActFn;
  for (const float x : {1e-30F, 1e30F, 3e38F, 1e-40F}) {
    for (const ActFn fn : {kLog, kSqrt, kRsqrt, kReciprocal, kArctan}) {
      CAPTURE(name(fn), x);
      CHECK(static_cast<double>(ulps(one(fn, x), reference(fn, static_cast<Real>(x)))) <= 0.51);
    }
  }
  CHECK(one(kLog, 0.0F) == -kInf);
  CHECK(std::isnan(one(kLog, -1.0F)));
  CHECK(one(kLog, kInf) == kInf);
  CHECK(std::isnan(one(kSqrt, -1.0F)));
  CHECK(one(kRsqrt, 0.0F) == kInf);
  CHECK(one(kReciprocal, -0.0F) == -kInf);
  CHECK(one(kArctan, kInf) == 1.57079637F);
}

TEST_CASE("exp has the exact values the documents promise", "[act]") {
  CHECK(one(ActFn::kExp, 0.0F) == 1.0F);
  CHECK(one(ActFn::kExp, -0.0F) == 1.0F);
  CHECK(one(ActFn::kExp, -kInf) == 0.0F);
  CHECK(one(ActFn::kExp, kLowest) == 0.0F);
  CHECK(one(ActFn::kExp, kInf) == kInf);
}

TEST_CASE("sin outside [-pi, pi] is the hardware's cubic", "[act]") {
  CHECK(one(ActFn::kSin, 9.0F) == Approx(27.65F).margin(0.01));
  CHECK(one(ActFn::kSin, -9.0F) == -one(ActFn::kSin, 9.0F));
  CHECK(std::fabs(one(ActFn::kSin, std::nextafter(3.14159274F, 4.0F))) < 1e-6F);
  CHECK_FALSE(in_valid_range(ActFn::kSin, 3.2F));
}

TEST_CASE("infinities give limits and NaN stays NaN", "[act]") {
  using enum ActFn;
  for (const ActFn fn : {kGelu, kGeluApprxTanh, kGeluApprxSigmoid, kSilu, kMish}) {
    CAPTURE(name(fn));
    CHECK(one(fn, -kInf) == 0.0F);
    CHECK(one(fn, kLowest) == 0.0F);
    CHECK(one(fn, kInf) == kInf);
  }
  for (const ActFn fn : {kGeluDx, kGeluApprxSigmoidDx, kSiluDx, kSigmoid}) {
    CAPTURE(name(fn));
    CHECK(one(fn, -kInf) == 0.0F);
    CHECK(one(fn, kInf) == 1.0F);
  }
  for (const ActFn fn : {kErf, kTanh, kSign}) {
    CHECK(one(fn, -kInf) == -1.0F);
    CHECK(one(fn, kInf) == 1.0F);
  }
  CHECK(one(kSoftplus, -kInf) == 0.0F);
  CHECK(one(kSoftplus, kInf) == kInf);
  CHECK(one(kErfDx, kInf) == 0.0F);
  for (int i = 0; i < kActFnCount; ++i) {
    const auto fn = static_cast<ActFn>(i);
    CAPTURE(name(fn));
    CHECK(std::isnan(one(fn, kNan)));
    CHECK_FALSE(in_valid_range(fn, kNan));
  }
}

TEST_CASE("vectorised activations do not depend on position, length or aliasing", "[act]") {
  std::vector<float> x;
  for (int i = 0; i < 67; ++i) x.push_back(static_cast<float>(i - 30) * 0.37F);
  for (int i = 0; i < kActFnCount; ++i) {
    const auto fn = static_cast<ActFn>(i);
    for (std::size_t n = 0; n <= x.size(); n += 7) {
      std::vector<float> in_place = x;
      apply(fn, in_place.data(), kSlope, in_place.data(), n);
      for (std::size_t j = 0; j < x.size(); ++j) {
        const float expected = j < n ? one(fn, x[j]) : x[j];
        if (std::bit_cast<std::uint32_t>(in_place[j]) == std::bit_cast<std::uint32_t>(expected))
          continue;
        FAIL(name(fn) << " of " << x[j] << " at " << j << " of " << n);
      }
    }
  }
}

// Recorded on a host with AVX-512; a host of another kind must produce the same bits.
TEST_CASE("activations have the same bits on every host", "[act]") {
  const std::vector<float> x = samples();
  std::vector<float> y(x.size());
  std::uint64_t all = 0;
  for (int i = 0; i < kActFnCount; ++i) {
    apply(static_cast<ActFn>(i), x.data(), kSlope, y.data(), x.size());
    all = all * 31 + hash(y);
  }
  CHECK(all == 0x620adfc8e49cb7dcU);
}

TEST_CASE("activation names parse, are unique and documented", "[act]") {
  std::set<std::string> seen;
  for (int i = 0; i < kActFnCount; ++i) {
    const auto fn = static_cast<ActFn>(i);
    CHECK(parse_act(name(fn)) == fn);
    CHECK(seen.insert(std::string(name(fn))).second);
    CHECK_FALSE(traits(fn).doc.empty());
  }
  CHECK(parse_act("identity") == ActFn::kCopy);
  CHECK(parse_act("EXP") == ActFn::kExp);
  CHECK(parse_act("erf_dx") == ActFn::kErfDx);
  CHECK_FALSE(parse_act("cosh"));
  CHECK_FALSE(parse_act(""));
  CHECK(in_valid_range(ActFn::kReciprocal, -2.0F));
  CHECK_FALSE(in_valid_range(ActFn::kReciprocal, 0.0F));
  CHECK_FALSE(in_valid_range(ActFn::kLog, 0.0F));
}
