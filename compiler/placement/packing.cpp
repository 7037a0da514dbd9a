// Packs SBUF tensors of few partitions next to each other (`pack`), by this algorithm:
//
//   for each group of narrow tensors, the largest first:
//     choose the start partition at which the fullest quadrant holds least during their lives
//   sort the items by bytes times quadrants, the largest first
//   repeat, up to 24 times:
//     place each item at the lowest address that is free in its quadrants while it lives
//     if one does not fit: move it to the front, and start again
#include "compiler/placement/packing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

namespace nkisim::compiler {
namespace {

constexpr std::int64_t kQuadrant = 32, kQuadrants = 4;
constexpr std::int64_t kAttempts = 24;
constexpr std::int64_t kWork = 40'000'000;  // pairs of items that all attempts may look at

using Mask = std::uint32_t;  // quadrants, as bits

// Quadrants that partitions [start, start + rows) lie in.
Mask span_of(std::int64_t start, std::int64_t rows) {
  Mask mask = 0;
  for (std::int64_t q = start / kQuadrant; q * kQuadrant < start + rows; ++q) {
    mask |= Mask{1} << static_cast<unsigned>(q);
  }
  return mask;
}

// An item whose quadrants are known.
struct Masked {
  Item item;
  Mask mask = 0;
};

// The bytes that each quadrant holds, at the moments at which items are born.
class Filled {
 public:
  explicit Filled(const std::vector<NarrowItem>& items) {
    for (const NarrowItem& i : items) births_.push_back(i.item.start);
    std::sort(births_.begin(), births_.end());
    births_.erase(std::unique(births_.begin(), births_.end()), births_.end());
    for (auto& bytes : bytes_) bytes.assign(births_.size(), 0);
  }

  // Adds the item's bytes (`sign` 1; takes them away: -1) to the quadrants of `mask`; the most that
  // any quadrant then holds while it lives.
  std::int64_t fill(const Item& item, Mask mask, int sign) {
    const auto from = std::lower_bound(births_.begin(), births_.end(), item.start);
    const auto to = std::upper_bound(births_.begin(), births_.end(), item.end);
    std::int64_t most = 0;
    for (std::size_t q = 0; q < bytes_.size(); ++q) {
      const std::int64_t change = (mask >> q & 1U) != 0 ? sign * item.bytes : 0;
      for (auto at = from - births_.begin(); at < to - births_.begin(); ++at) {
        std::int64_t& bytes = bytes_[q][static_cast<std::size_t>(at)];
        bytes += change;
        most = std::max(most, bytes);
      }
    }
    return most;
  }

 private:
  std::vector<std::int64_t> births_;
  std::array<std::vector<std::int64_t>, kQuadrants> bytes_;
};

using Group = std::vector<const NarrowItem*>;

// Groups of items that may move, the largest first.
std::vector<Group> groups_of(const std::vector<NarrowItem>& items) {
  std::map<std::int32_t, Group> members;
  for (const NarrowItem& i : items) {
    if (i.group >= 0 && !i.item.fixed()) members[i.group].push_back(&i);
  }
  std::vector<std::tuple<std::int64_t, std::uint32_t, Group>> sized;
  for (auto& [number, group] : members) {
    std::int64_t bytes = 0;
    for (const NarrowItem* i : group) bytes += i->item.bytes;
    sized.emplace_back(-bytes, group.front()->item.id, std::move(group));
  }
  std::sort(sized.begin(), sized.end());
  std::vector<Group> out;
  for (auto& entry : sized) out.push_back(std::move(std::get<2>(entry)));
  return out;
}

// The start at which the fullest quadrant holds least.
std::int64_t best_start(const Group& group, Filled& filled) {
  std::int64_t rows = 0;
  for (const NarrowItem* i : group) rows = std::max(rows, i->rows);
  const std::int64_t step = rows > kQuadrant ? 2 * kQuadrant : kQuadrant;
  std::optional<std::int64_t> lowest;
  std::int64_t best = 0;
  for (std::int64_t start = 0; start < kQuadrants * kQuadrant; start += step) {
    std::int64_t most = 0;
    for (const NarrowItem* i : group) {
      most = std::max(most, filled.fill(i->item, span_of(start, i->rows), 1));
    }
    for (const NarrowItem* i : group) filled.fill(i->item, span_of(start, i->rows), -1);
    if (lowest && *lowest <= most) continue;
    lowest = most;
    best = start;
  }
  return best;
}

// Quadrants of each item, in the items' order; groups put where least is filled at the same time.
std::vector<Masked> with_quadrants(const std::vector<NarrowItem>& items,
                                   std::vector<std::pair<std::uint32_t, std::uint16_t>>& starts) {
  Filled filled(items);
  std::vector<Masked> out;
  for (const NarrowItem& i : items) {
    const bool moves = i.group >= 0 && !i.item.fixed();
    out.push_back({i.item, moves ? 0 : span_of(i.partition, i.rows)});
    if (!moves) filled.fill(i.item, out.back().mask, 1);
  }
  for (const Group& group : groups_of(items)) {
    const std::int64_t start = best_start(group, filled);
    for (const NarrowItem* i : group) {
      Masked& masked = out[static_cast<std::size_t>(i - items.data())];
      masked.mask = span_of(start, i->rows);
      filled.fill(i->item, masked.mask, 1);
      starts.emplace_back(i->item.id, static_cast<std::uint16_t>(start));
    }
  }
  std::sort(starts.begin(), starts.end());
  return out;
}

// The lowest aligned address with `size` free bytes outside the intervals `taken`.
std::optional<std::int64_t> gap(std::vector<std::pair<std::int64_t, std::int64_t>> taken,
                                std::int64_t size, std::int64_t capacity) {
  std::sort(taken.begin(), taken.end());
  std::int64_t cursor = 0;
  for (const auto& [low, high] : taken) {
    const std::int64_t begin = (cursor + kAlign - 1) / kAlign * kAlign;
    if (begin + size <= low) return begin;
    cursor = std::max(cursor, high);
  }
  const std::int64_t begin = (cursor + kAlign - 1) / kAlign * kAlign;
  if (begin + size <= capacity) return begin;
  return std::nullopt;
}

// Each item in order at the lowest address that is free in its quadrants while it lives.
Placing place_in_order(const std::vector<Masked>& fixed, const std::vector<Masked>& order,
                       std::int64_t capacity) {
  Placement out;
  std::vector<Masked> done;
  const auto settle = [&](const Masked& next, std::int64_t at) {
    done.push_back(next);
    done.back().item.address = at;
    out.addresses.emplace_back(next.item.id, at);
    out.peak = std::max(out.peak, at + next.item.bytes);
  };
  for (const Masked& f : fixed) settle(f, f.item.address);
  for (const Masked& next : order) {
    const auto in_lanes = [&](const Masked& d) {
      return d.item.meets(next.item) && (d.mask & next.mask) != 0;
    };
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Masked& d : done) {
      if (in_lanes(d)) taken.emplace_back(d.item.address, d.item.address + d.item.bytes);
    }
    const auto at = gap(std::move(taken), next.item.bytes, capacity);
    if (!at) {
      Shortage shortage{next.item, {}};
      for (const Masked& d : done) {
        if (in_lanes(d)) shortage.live.push_back(d.item);
      }
      return shortage;
    }
    settle(next, *at);
  }
  return out;
}

}  // namespace

std::variant<Packed, Shortage> pack(const std::vector<NarrowItem>& items, std::int64_t capacity) {
  for (const NarrowItem& i : items) {
    if (i.item.bytes > capacity) return Shortage{i.item, {}};  // so no sum leaves its range
  }
  Packed packed;
  std::vector<Masked> fixed, order;
  for (const Masked& m : with_quadrants(items, packed.starts)) {
    (m.item.fixed() ? fixed : order).push_back(m);
  }
  std::stable_sort(order.begin(), order.end(), [](const Masked& a, const Masked& b) {
    const auto key = [](const Masked& m) {
      return std::tuple(-m.item.bytes * std::popcount(m.mask), m.item.start);
    };
    return key(a) < key(b);
  });
  const auto count = static_cast<std::int64_t>(items.size());
  const std::int64_t attempts = std::clamp<std::int64_t>(kWork / (count * count + 1), 1, kAttempts);
  std::optional<Shortage> first;
  for (std::int64_t attempt = 0; attempt < attempts; ++attempt) {
    Placing placing = place_in_order(fixed, order, capacity);
    if (auto* placement = std::get_if<Placement>(&placing)) {
      packed.placement = std::move(*placement);
      return packed;
    }
    auto& shortage = std::get<Shortage>(placing);  // what found no space chooses first
    const auto at = std::find_if(order.begin(), order.end(),
                                 [&](const Masked& m) { return m.item.id == shortage.item.id; });
    std::rotate(order.begin(), at, at + 1);
    if (!first) first = std::move(shortage);
  }
  return *first;
}

}  // namespace nkisim::compiler
