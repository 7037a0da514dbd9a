// Declares the activation functions of the Scalar engine: their names, their valid ranges and their
// evaluation over arrays. The list itself is isa/base/act.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nkisim::isa {

enum class ActFn : std::uint8_t {
#define NKISIM_ACT(id, ...) id,
#include "isa/base/act.def"
};
inline constexpr int kActFnCount = 0
#define NKISIM_ACT(id, ...) +1
#include "isa/base/act.def"
    ;

struct ActTraits {
  std::string_view name;
  std::string_view aliases;  // separated by blanks
  std::string_view doc;
  float valid_low;  // documented valid inputs; `reciprocal` means +-[low, high]
  float valid_high;
  bool either_sign;  // the range is one of magnitudes
};

[[nodiscard]] const ActTraits& traits(ActFn fn);
[[nodiscard]] std::string_view name(ActFn fn);
/// Accepts the nki.language name or an alias, in any case; empty if unknown.
[[nodiscard]] std::optional<ActFn> parse_act(std::string_view text);
/// True if the documents promise a result for `x`; false for NaN.
[[nodiscard]] bool in_valid_range(ActFn fn, float x);

/// out[i] = fn(in[i]), evaluated in double and rounded to FP32 once: within 0.51 ulp wherever the
/// function is defined (the derivatives: next to their zeros 1e-12 absolute). Identical on every
/// host. `param` is the slope of prelu and otherwise unused. A computed NaN is the canonical quiet
/// one; copy moves bits untouched. Outside the valid range this returns the mathematical value
/// (sin: the hardware's cubic). `out` may be `in` but may not overlap it otherwise.
void apply(ActFn fn, const float* in, float param, float* out, std::size_t n);

}  // namespace nkisim::isa
