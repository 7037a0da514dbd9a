// Compares two arrays of any types element by element.

#include "src/run/compare.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

namespace nkisim {
namespace {

constexpr std::size_t kBlock = 2048, kLanes = 8;
constexpr double kTiny = 1e-300;

// |x - y|, 0 for two that are the same; NaN where only one of them is a NaN.
double error_of(double x, double y) {
  const bool same = (x == y) | ((x != x) & (y != y));
  return same ? 0 : std::abs(x - y);
}

// Sums over blocks. Each lane adds every eighth element, so that neither the order of the sums nor
// their last bits depend on how a compiler vectorises them.
class Comparer {
 public:
  explicit Comparer(const Tolerance& tolerance) : limit_(tolerance) {}

  template <typename T>
  void add(const T* x, const T* y, std::size_t count) {
    std::size_t i = 0;
    std::int64_t wrong = 0;
    std::int64_t records = 0;  // elements that may be worse than all before
    for (; i + kLanes <= count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        one(static_cast<double>(x[i + lane]), static_cast<double>(y[i + lane]), lane, wrong,
            records);
      }
    }
    for (; i < count; ++i) {
      one(static_cast<double>(x[i]), static_cast<double>(y[i]), 0, wrong, records);
    }
    if (records != 0 || (wrong != 0 && out_.first < 0)) look(x, y, count);
    out_.mismatches += wrong;
    out_.elements += static_cast<std::int64_t>(count);
  }

  Difference done() {
    double difference = 0, norm = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      difference += difference_.at(lane);
      norm += norm_.at(lane);
    }
    out_.rel_l2 = std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1);
    out_.equal = limit_.rel_l2 ? out_.rel_l2 <= *limit_.rel_l2 : out_.mismatches == 0;
    return out_;
  }

 private:
  void one(double x, double y, std::size_t lane, std::int64_t& wrong, std::int64_t& records) {
    const double error = error_of(x, y), size = std::abs(y);
    const bool finite = size <= DBL_MAX;
    const double tolerance = finite ? limit_.atol + limit_.rtol * size : 0;
    wrong += !(error <= tolerance);
    difference_[lane] += error * error;
    norm_[lane] += finite ? size * size : 0;
    records += !(error <= out_.max_abs_error) | !(error <= least_ * (tolerance + kTiny)) |
               !(error <= out_.max_rel_error * size);
  }

  // A block with a record: finds it.
  template <typename T>
  void look(const T* x, const T* y, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto got = static_cast<double>(x[i]), want = static_cast<double>(y[i]);
      const double error = error_of(got, want), size = std::abs(want);
      const double tolerance = size <= DBL_MAX ? limit_.atol + limit_.rtol * size : 0;
      const auto at = out_.elements + static_cast<std::int64_t>(i);
      if (out_.first < 0 && !(error <= tolerance)) out_.first = at;
      if (std::isfinite(error)) {
        out_.max_abs_error = std::max(out_.max_abs_error, error);
        if (want != 0) out_.max_rel_error = std::max(out_.max_rel_error, error / size);
      }
      const double badness = std::isfinite(error) ? error / (tolerance + kTiny) : HUGE_VAL;
      if (badness <= worst_) continue;
      worst_ = badness;
      least_ = badness * (1 - 1e-9);  // what division rounds is looked at
      out_.worst = at;
      out_.got = got;
      out_.expected = want;
    }
  }

  Tolerance limit_;
  Difference out_;
  double worst_ = -1, least_ = -1;
  std::array<double, kLanes> difference_{}, norm_{};
};

bool decodes_exactly(const std::optional<isa::Dtype>& dtype) {
  return dtype && (!isa::is_integer(*dtype) || isa::size_bytes(*dtype) < 4);
}

std::size_t values_per_element(isa::Dtype dtype) { return isa::is_packed(dtype) ? 4 : 1; }

// Blocks of Numbers as floats, or as doubles.
template <typename T>
class Reader {
 public:
  explicit Reader(const Numbers& numbers) : numbers_(numbers), kept_(kBlock) {}

  const T* block(std::size_t first, std::size_t count) {
    const std::byte* data = numbers_.bytes.data();
    if (!numbers_.dtype) {
      std::memcpy(kept_.data(), data + first * sizeof(double), count * sizeof(T));
      return kept_.data();
    }
    const isa::Dtype dtype = *numbers_.dtype;
    const auto size = static_cast<std::size_t>(isa::size_bytes(dtype));
    const std::size_t values = values_per_element(dtype);
    decode(dtype, data + first / values * size, count / values);
    return kept_.data();
  }

  /// Integers of 64 bits that differ are kept as doubles that differ.
  void part_from(const Reader& other, std::size_t first, std::size_t count) {
    if (numbers_.dtype != isa::Dtype::kInt64 || other.numbers_.dtype != numbers_.dtype) return;
    const std::byte *mine = numbers_.bytes.data(), *theirs = other.numbers_.bytes.data();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (first + i) * sizeof(std::int64_t);
      if (kept_[i] != other.kept_[i]) continue;
      if (std::memcmp(mine + at, theirs + at, sizeof(std::int64_t)) == 0) continue;
      kept_[i] = std::nextafter(kept_[i], static_cast<T>(HUGE_VAL));
    }
  }

 private:
  void decode(isa::Dtype dtype, const std::byte* in, std::size_t count) {
    if constexpr (sizeof(T) == sizeof(float)) {
      isa::decode(dtype, in, count, kept_.data());
    } else if (decodes_exactly(dtype)) {
      std::array<float, kBlock> floats;
      isa::decode(dtype, in, count, floats.data());
      std::copy_n(floats.begin(), count * values_per_element(dtype), kept_.begin());
    } else {
      if (dtype == isa::Dtype::kInt64) return decode_wide(in, count);
      std::array<std::uint32_t, kBlock> words;
      isa::decode_bits(dtype, in, count, words.data());
      for (std::size_t i = 0; i < count; ++i) {
        kept_[i] = dtype == isa::Dtype::kInt32 ? static_cast<T>(static_cast<std::int32_t>(words[i]))
                                               : static_cast<T>(words[i]);
      }
    }
  }

  void decode_wide(const std::byte* in, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t value = 0;
      std::memcpy(&value, in + i * sizeof value, sizeof value);
      kept_[i] = static_cast<T>(value);
    }
  }

  const Numbers& numbers_;
  std::vector<T> kept_;
};

template <typename T>
Difference compare_as(const Numbers& found, const Numbers& expected, const Tolerance& tolerance) {
  Comparer comparer(tolerance);
  Reader<T> x(found), y(expected);
  const auto all = static_cast<std::size_t>(found.count());
  for (std::size_t first = 0; first < all; first += kBlock) {
    const std::size_t count = std::min(kBlock, all - first);
    const T *found_block = x.block(first, count), *expected_block = y.block(first, count);
    x.part_from(y, first, count);
    comparer.add(found_block, expected_block, count);
  }
  return comparer.done();
}

}  // namespace

std::int64_t Numbers::count() const {
  if (!dtype) return static_cast<std::int64_t>(bytes.size() / sizeof(double));
  const auto size = static_cast<std::size_t>(isa::size_bytes(*dtype));
  return static_cast<std::int64_t>(bytes.size() / size * values_per_element(*dtype));
}

Difference compare(const Numbers& found, const Numbers& expected, const Tolerance& tolerance) {
  if (decodes_exactly(found.dtype) && decodes_exactly(expected.dtype)) {
    return compare_as<float>(found, expected, tolerance);
  }
  return compare_as<double>(found, expected, tolerance);
}

}  // namespace nkisim
