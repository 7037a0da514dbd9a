// Computes e^x and tanh x over arrays by cheap approximations. A test of each element ensures that
// the FP32 result is the one of isa/base/fp_math.hpp.
#pragma once

#include <cstddef>
#include <span>

namespace nkisim::isa {

/// out[i] = f(in[i]); `out` may be `in` but may not overlap it otherwise.
using FloatLoop = void (*)(const float* in, float* out, std::size_t n);

/// Both give the bits of `exact`, which computes fp::exp or fp::tanh and rounds it: it is called
/// for the few blocks where the test cannot decide.
void tested_exp(const float* in, float* out, std::size_t n, FloatLoop exact);
void tested_tanh(const float* in, float* out, std::size_t n, FloatLoop exact);

/// For tests: the same for each instruction set of the host, the most common first.
using TestedLoop = void (*)(const float* in, float* out, std::size_t n, FloatLoop exact);
struct TestedLoops {
  const char* name;
  TestedLoop exp, tanh;
};
[[nodiscard]] std::span<const TestedLoops> tested_loops();

}  // namespace nkisim::isa
