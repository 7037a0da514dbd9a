// Declares the record of a run's casts to integers by place: what they rounded, and how far the
// numbers went.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "isa/base/dtype.hpp"
#include "isa/base/inst.hpp"

namespace nkisim::isa {

/// The casts of numbers to integers at one place of a kernel, over a whole run.
struct IntegerCasts {
  const Inst* inst = nullptr;  // the first of the place
  Dtype dtype = Dtype::kInt8;
  std::size_t values = 0, fractions = 0;  // how many but zeros, and how many of them no integers
  float most = 0.0F;                      // the largest magnitude
  /// Most numbers had fractions, and none reached small(): what is left of them says little.
  /// Quantised numbers fill the range of their integers.
  [[nodiscard]] bool loses_fractions() const {
    return most < small() && 2 * fractions > values && values >= kFew;
  }
  [[nodiscard]] float small() const { return size_bytes(dtype) == 1 ? 32.0F : 8.0F; }
  static constexpr std::size_t kFew = 16;
};

class IntegerCastsByPlace {
 public:
  void add(const Inst& inst, Dtype dtype, const float* values, std::size_t count);
  using Line = std::pair<std::uint32_t, std::uint32_t>;  // of a kernel; or 0 and that of the trace
  [[nodiscard]] const std::map<Line, IntegerCasts>& places() const { return places_; }

 private:
  std::map<Line, IntegerCasts> places_;
};

/// The place of an instruction as a key.
[[nodiscard]] inline IntegerCastsByPlace::Line place_of(const SourceLoc& loc) {
  if (loc.kernel_line == 0) return {0, loc.trace_line};
  return {loc.kernel_file, loc.kernel_line};
}

}  // namespace nkisim::isa
