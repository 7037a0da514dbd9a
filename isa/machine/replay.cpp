// Replaces undefined (never-written) elements by test values, and compares results for each of
// them.
#include "isa/machine/replay.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "isa/machine/undefined.hpp"

namespace nkisim::isa {
namespace {

constexpr int kUniform = 6;  // evaluations with the same kind of value everywhere, then mixtures
constexpr std::int64_t kSentinelInteger = 4;
constexpr std::byte kAllBits{0xff};

std::uint32_t mix(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15U;
  x ^= x >> 29U;
  x *= 0xbf58476d1ce4e5b9U;
  return static_cast<std::uint32_t>(x >> 32U);
}

float float_fill(int fill, std::uint32_t h) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (fill) {
    case 0:
      return std::numeric_limits<float>::quiet_NaN();
    case 1:
      return 0.0F;
    case 2:
      return 0.5F + static_cast<float>(h % 1024U) / 256.0F;
    case 3:
      return -0.75F - static_cast<float>((h >> 10U) % 1024U) / 256.0F;
    case 4:
      return kInfinity;
    case 5:
      return -kInfinity;
    case 6:
      return 1.0F;
    case 7:
      return 1e30F * static_cast<float>(1U + h % 64U);
    default:
      return -1e4F * static_cast<float>(1U + h % 64U);
  }
}

// Fills 2 and 3 differ in every bit, 4 and 5 are the largest and the smallest number. Beyond those:
// 1, and two random ones.
std::uint32_t bits_fill(int fill, std::uint32_t h, std::int64_t size) {
  const std::uint32_t top = 1U << static_cast<unsigned>(8 * size - 1);
  switch (fill) {
    case 0:
      return kSentinelInteger;
    case 1:
      return 0;
    case 2:
      return h;
    case 3:
      return ~h;
    case 4:
      return top - 1U;
    case 5:
      return top;
    case 6:
      return 1;
    case 7:
      return h % 128U;
    default:
      return mix(h);
  }
}

// The kind of value of evaluation `fill` for one of the undefined elements.
int kind_of(int fill, std::uint32_t h) {
  constexpr std::uint32_t kKinds = 9;
  return fill < kUniform ? fill : static_cast<int>(mix(h + static_cast<unsigned>(fill)) % kKinds);
}

// A value for an undefined element; `place` makes it differ from that of the next element.
void fill_element(Dtype dtype, int fill, std::uint64_t place, std::byte* out) {
  const std::uint32_t h = mix(place);
  fill = kind_of(fill, h);
  if (kFloats.contains(dtype)) return encode_one(dtype, float_fill(fill, h), out);
  std::uint64_t bits = bits_fill(fill, h, size_bytes(dtype));
  if (!is_integer(dtype) && fill == 0)
    bits = ~0U;  // packed and scale types: NaN where there is one
  std::memcpy(out, &bits, static_cast<std::size_t>(size_bytes(dtype)));
}

// A byte of a packed element, changed where it would be NaN or infinity.
std::uint32_t finite_byte(Dtype dtype, std::uint32_t byte) {
  if (dtype == Dtype::kFloat8E4m3fnX4 && (byte & 0x7fU) == 0x7fU) return byte ^ 1U;
  if (dtype == Dtype::kFloat8E5m2X4 && (byte & 0x7cU) == 0x7cU) return byte ^ 0x40U;
  return byte;
}

// As fill_element, for evaluations 1 (zeros), 2, 3 and 4 (near the largest), without NaN and
// infinity; scales make neither of any packed value.
void fill_finite(Dtype dtype, int fill, std::uint64_t place, std::byte* out) {
  constexpr std::uint32_t kOne = 127, kSpread = 32, kLargest = 110;  // exponents of scales
  constexpr float kHuge = 1e38F;
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  const std::uint32_t h = mix(place + static_cast<std::uint64_t>(fill));
  std::uint32_t bits = 0;
  if (fill > 1 && kFloats.contains(dtype)) {
    const float value = fill < 4 ? float_fill(fill, h) : (h % 2 == 0 ? kHuge : -kHuge);
    return encode_one(dtype, value, out);
  }
  if (fill > 1 && dtype == Dtype::kFloat8E8m0fnu) {
    bits = fill < 4 ? kOne - kSpread + h % (2 * kSpread) : kOne + kLargest;
  } else if (fill > 1) {
    for (std::size_t i = 0; i < size; ++i) {
      bits |= finite_byte(dtype, (h >> (8 * i)) & 0xffU) << (8 * i);
    }
  }
  std::memcpy(out, &bits, size);
}

// True if evaluation `fill` has one value for all elements.
bool is_constant(int fill) { return fill == 0 || fill == 1 || fill == 4 || fill == 5; }

template <typename Fn>
void for_each_element(const auto& run, Fn&& fn) {
  std::byte* at = run.data;
  for (std::int64_t i = 0; i < run.count; ++i, at += run.step) fn(i, at);
}

void invert(std::byte* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes[i] ^= kAllBits;
}

}  // namespace

void fill_sentinel(Dtype dtype, std::byte* element) { fill_element(dtype, 0, 0, element); }

float undefined_lane(int fill, std::size_t lane) {
  return float_fill(kind_of(fill, mix(lane)), mix(lane));
}

void EvalContext::Replay::fill_holes(int fill) const {
  for (const Holes& h : holes) {
    if (fill == 0 && h.stored) continue;
    const auto size = static_cast<std::size_t>(size_bytes(h.dtype));
    std::array<std::byte, 4> value{};
    if (fill == kInverse || is_constant(fill)) {
      fill_element(h.dtype, std::max(fill, 0), 0, value.data());
      if (fill == kInverse) invert(value.data(), size);
    }
    for_each_element(h, [&](std::int64_t i, std::byte* at) {
      if (finite && fill > 0) {
        return fill_finite(h.dtype, fill, h.where + static_cast<std::uint64_t>(i * h.step), at);
      }
      if (fill == kInverse && h.stored) {
        std::memcpy(at, &hole_bytes[h.saved + static_cast<std::size_t>(i) * size], size);
        invert(at, size);
      } else if (fill == kInverse || is_constant(fill)) {
        std::memcpy(at, value.data(), size);
      } else {
        fill_element(h.dtype, fill, h.where + static_cast<std::uint64_t>(i * h.step), at);
      }
    });
  }
}

// Undefined bytes were packed as their sentinel, so evaluation 0 takes the bytes as they came.
void EvalContext::Replay::fill_parcel(int fill) {
  const auto size = static_cast<std::size_t>(size_bytes(parcel.dtype));
  for (std::size_t i = 0; i < parcel.undefined.size(); ++i) {
    if (parcel.undefined[i] == 0) continue;
    std::byte* at = &parcel.bytes[i * size];
    if (fill == kInverse) {
      std::memcpy(at, &received->bytes[i * size], size);
      invert(at, size);
    } else {
      fill_element(parcel.dtype, fill, i, at);
    }
  }
}

void EvalContext::Replay::put_back() const {
  for (const Holes& h : holes) {
    const auto size = static_cast<std::size_t>(size_bytes(h.dtype));
    const std::byte* from = &hole_bytes[h.saved];
    for_each_element(h, [&](std::int64_t, std::byte* at) {
      std::memcpy(at, from, size);
      from += size;
    });
  }
  restore(before);
}

void EvalContext::Replay::copy_to(std::vector<std::byte>& bytes) const {
  bytes.resize(piece_bytes);
  for (const Piece& p : pieces) {
    std::byte* to = bytes.data() + p.saved;
    if (p.step == p.size) {
      std::memcpy(to, p.data, static_cast<std::size_t>(p.count * p.size));
      continue;
    }
    for_each_element(p, [&](std::int64_t i, const std::byte* at) {
      std::memcpy(to + i * p.size, at, static_cast<std::size_t>(p.size));
    });
  }
}

void EvalContext::Replay::restore(const std::vector<std::byte>& bytes) const {
  for (const Piece& p : pieces) {
    const std::byte* from = bytes.data() + p.saved;
    if (p.step == p.size) {
      std::memcpy(p.data, from, static_cast<std::size_t>(p.count * p.size));
      continue;
    }
    for_each_element(p, [&](std::int64_t i, std::byte* at) {
      std::memcpy(at, from + i * p.size, static_cast<std::size_t>(p.size));
    });
  }
}

bool EvalContext::Replay::keep_finite() {
  bool any = false;
  for (const Piece& p : pieces) {
    const auto size = static_cast<std::size_t>(p.size);
    for (std::size_t at = p.saved; at < p.saved + static_cast<std::size_t>(p.count) * size;
         at += size) {
      if (any_bit(&differs[at], p.size) || std::memcmp(&actual[at], &zeros[at], size) == 0) {
        continue;
      }
      std::memcpy(&actual[at], &zeros[at], size);
      any = true;
    }
  }
  return any;
}

void EvalContext::Replay::compare() {
  using Word = std::uint64_t;
  const std::vector<std::byte>& first = finite ? zeros : actual;
  std::size_t i = 0;
  for (; i + sizeof(Word) <= now.size(); i += sizeof(Word)) {
    Word a, b, d;
    std::memcpy(&a, &now[i], sizeof a);
    std::memcpy(&b, &first[i], sizeof b);
    std::memcpy(&d, &differs[i], sizeof d);
    d |= a ^ b;
    std::memcpy(&differs[i], &d, sizeof d);
  }
  for (; i < now.size(); ++i) differs[i] |= now[i] ^ first[i];
}

void Reaches::note(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t first,
                   std::int64_t count) {
  auto at = std::find_if(of_width_.begin(), of_width_.end(),
                         [&](const OfWidth& r) { return r.columns == columns; });
  if (at == of_width_.end()) {
    at = of_width_.insert(at, {.columns = columns, .rows = {}, .elements = {}});
  }
  const auto grow = [](std::vector<std::uint8_t>& flags, std::int64_t size) {
    flags.resize(std::max(flags.size(), static_cast<std::size_t>(size)));
  };
  grow(at->rows, rows);
  grow(at->elements, rows * columns);
  at->rows[static_cast<std::size_t>(row)] = 1;
  std::fill_n(at->elements.begin() + row * columns + first, count, std::uint8_t{1});
}

Reaches::Hit Reaches::hit(std::int64_t row, std::int64_t column, std::int64_t columns,
                          bool by_row) const {
  Hit hit;
  const auto r = static_cast<std::size_t>(row);
  for (const OfWidth& w : of_width_) {
    if (r >= w.rows.size() || w.rows[r] == 0) continue;
    if (by_row || w.columns != columns) return {.all = true};
    hit.elements = &w.elements[static_cast<std::size_t>(row * w.columns + column)];
  }
  return hit;
}

bool EvalContext::Replay::any_bit(const std::byte* element, std::int64_t size) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(size));
  return bits != 0;
}

Reaches::Hit EvalContext::Replay::spread_over(const Piece& piece) const {
  if (spread == OpSpec::Undefined::kNone) return piece.hit(selects, false);
  return piece.hit(reach, spread == OpSpec::Undefined::kRows);
}

bool EvalContext::Replay::settled() const {
  using enum OpSpec::Depends;
  return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) {
    const Reaches::Hit may =
        depends == kAll ? Reaches::Hit{.all = true} : p.hit(reach, depends == kRow);
    const Reaches::Hit is = spread_over(p);
    if (is.all || may.none()) return true;
    const std::byte* flags = differs.data() + p.saved;
    for (std::int64_t i = 0; i < p.count; ++i, flags += p.size) {
      if (may.at(i) && !is.at(i) && !any_bit(flags, p.size)) return false;
    }
    return true;
  });
}

void WriteLog::note(const std::byte* first, const std::byte* last) {
  if (!writes_.empty() && writes_.size() > of_first_ && writes_.back().last == first) {
    writes_.back().last = last;
  } else {
    writes_.push_back({first, last});
  }
}

void WriteLog::end_evaluation() {
  ++evaluations_;
  if (of_first_ == 0) {
    of_first_ = writes_.size();
    return;
  }
  const auto middle = writes_.begin() + static_cast<std::ptrdiff_t>(of_first_);
  const auto same = [](const Write& a, const Write& b) {
    return a.first == b.first && a.last == b.last;
  };
  if (std::equal(writes_.begin(), middle, middle, writes_.end(), same)) {
    writes_.erase(middle, writes_.end());
  }
}

void WriteLog::merge() {
  const auto earlier = [](const Write& a, const Write& b) { return a.first < b.first; };
  if (!std::is_sorted(writes_.begin(), writes_.end(), earlier)) {
    std::sort(writes_.begin(), writes_.end(), earlier);
  }
  std::size_t kept = 0;
  for (const Write& w : writes_) {
    if (kept > 0 && w.first <= writes_[kept - 1].last) {
      writes_[kept - 1].last = std::max(writes_[kept - 1].last, w.last);
    } else {
      writes_[kept++] = w;
    }
  }
  writes_.resize(kept);
}

bool WriteLog::written(const std::byte* at) {
  const auto begin = writes_.begin();
  auto next = begin + static_cast<std::ptrdiff_t>(next_);
  if (next == writes_.end() || at >= next->last || (next != begin && at < std::prev(next)->last)) {
    next = std::upper_bound(begin, writes_.end(), at,
                            [](const std::byte* b, const Write& w) { return b < w.last; });
    next_ = static_cast<std::size_t>(next - begin);
  }
  return next != writes_.end() && next->first <= at;
}

}  // namespace nkisim::isa
