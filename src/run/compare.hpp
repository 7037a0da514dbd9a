// Compares numbers with expected ones. Commands, Python, tests and evaluations all use this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "isa/base/dtype.hpp"

namespace nkisim {

/// The tolerance of an output.
struct Tolerance {
  double rtol = 1e-5, atol = 1e-8;
  /// Instead of both: the most that Difference::rel_l2 may be.
  std::optional<double> rel_l2 = {};
};

/// Element x matches y if they are equal, both are NaN, or |x - y| <= atol + rtol * |y|. So a NaN
/// matches a NaN and nothing else, and an infinity itself.
struct Difference {
  std::int64_t elements = 0, mismatches = 0;
  std::int64_t first = -1;                      // mismatch
  double max_abs_error = 0, max_rel_error = 0;  // of differences that are finite
  /// |x - y| / |y| over all elements, or |x - y| where y is 0; equal elements add nothing to the
  /// difference, whatever they are, and y counts where it is finite. NaN if a NaN matches none.
  double rel_l2 = 0;
  std::int64_t worst = 0;  // element of the largest |x - y| / tolerance
  double got = 0, expected = 0;
  bool equal = true;  // as the tolerance says
};

/// Contiguous numbers in memory: of `dtype`, or doubles without one.
struct Numbers {
  std::optional<isa::Dtype> dtype = {};
  std::span<const std::byte> bytes = {};
  /// Values: a packed element has four.
  [[nodiscard]] std::int64_t count() const;
};

/// Both have the same count.
[[nodiscard]] Difference compare(const Numbers& found, const Numbers& expected,
                                 const Tolerance& tolerance);

}  // namespace nkisim
