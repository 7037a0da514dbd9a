// Assigns addresses in one on-chip memory (`allocate`), by the first of these algorithms that fits:
//
//   rolling pointer: each item, by its start, in the first gap from where the previous one ends
//   first fit: each item, by its start, in the lowest gap
//   zones (SBUF): large items by first fit, small ones above them by rolling pointer
//   largest first: each item in the lowest gap that is free during its life
//     (skipped if more bytes live at a time than there are)
//
// PSUM items take whole free banks, round robin; then any gap within one bank.
#include "compiler/placement/allocator.hpp"

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <boost/heap/priority_queue.hpp>
#include <optional>
#include <span>
#include <tuple>

namespace nkisim::compiler {
namespace {

constexpr std::int64_t kSmall = 4;  // a tile of at most this part of the largest is small
constexpr std::int64_t kBoundless = std::int64_t{1} << 62U;

// Bytes [begin, end) that a tensor takes.
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::uint32_t id = 0;
  auto operator<=>(const Interval&) const = default;
};

using Taken = std::span<const Interval>;  // sorted

struct Expiry {
  std::int64_t time = 0;
  Interval bytes;
  auto operator<=>(const Expiry&) const = default;
};

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Sorted; overlapping ones (of fixed tensors) as one.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> out;
  for (const Interval& i : intervals) {
    if (!out.empty() && i.begin < out.back().end) {
      out.back().end = std::max(out.back().end, i.end);
    } else {
      out.push_back(i);
    }
  }
  return out;
}

// The lowest place from `pointer` on between the sorted intervals `taken`.
std::optional<std::int64_t> first_gap(Taken taken, std::int64_t size, std::int64_t capacity,
                                      std::int64_t pointer) {
  auto next = std::partition_point(taken.begin(), taken.end(),
                                   [pointer](const Interval& i) { return i.begin < pointer; });
  std::int64_t cursor = pointer;
  if (next != taken.begin()) cursor = std::max(pointer, std::prev(next)->end);
  for (;; ++next) {
    const std::int64_t begin = round_up(cursor, kAlign);
    const bool last = next == taken.end();
    if (begin + size <= (last ? capacity : next->begin)) return begin;
    if (last) return std::nullopt;
    cursor = std::max(cursor, next->end);
  }
}

// The lowest place within bank `k`.
std::optional<std::int64_t> gap_in_bank(Taken taken, std::int64_t size, std::int64_t bank,
                                        std::int64_t k) {
  std::int64_t cursor = k * bank;
  for (const Interval& i : taken) {
    if (i.begin >= (k + 1) * bank || i.end <= k * bank) continue;
    if (cursor + size <= i.begin) return cursor;
    cursor = std::max(cursor, round_up(i.end, kAlign));
  }
  if (cursor + size <= (k + 1) * bank) return cursor;
  return std::nullopt;
}

// A PSUM without bound would need this many banks, each with a bit here.
constexpr std::int64_t kMostBanks = std::int64_t{1} << 30U;

// Whole banks first, round robin; then any place that does not straddle a bank.
std::optional<std::int64_t> find_bank(Taken taken, std::int64_t size, std::int64_t capacity,
                                      std::int64_t bank, std::int64_t pointer) {
  const std::int64_t need = (size + bank - 1) / bank;
  std::int64_t banks = capacity / bank;
  if (capacity == kBoundless) {  // space behind all that is there
    banks = need;
    for (const Interval& i : taken) banks = std::max(banks, (i.end + bank - 1) / bank + need);
    if (banks > kMostBanks) return std::nullopt;
  }
  if (need > banks) return std::nullopt;
  std::vector<bool> busy(static_cast<std::size_t>(banks + need), false);
  for (const Interval& i : taken) {
    const auto end = std::min((i.end + bank - 1) / bank, banks + need);
    for (std::int64_t k = i.begin / bank; k < end; ++k) busy[static_cast<std::size_t>(k)] = true;
  }
  const std::int64_t first = (pointer + bank - 1) / bank;
  for (std::int64_t step = 0; step < banks; ++step) {
    const std::int64_t k = (first + step) % banks;
    const auto from = busy.begin() + k;
    if (k + need <= banks && std::find(from, from + need, true) == from + need) return k * bank;
  }
  if (size > bank) return std::nullopt;
  for (std::int64_t k = 0; k < banks; ++k) {
    if (const auto at = gap_in_bank(taken, size, bank, k)) return at;
  }
  return std::nullopt;
}

std::optional<std::int64_t> find(Taken taken, std::int64_t size, std::int64_t capacity,
                                 std::int64_t bank, std::int64_t pointer) {
  if (bank != 0) return find_bank(taken, size, capacity, bank, pointer);
  const auto at = first_gap(taken, size, capacity, pointer);
  return at || pointer == 0 ? at : first_gap(taken, size, capacity, 0);
}

Interval interval_of(const Item& item) {
  return {item.address, item.address + item.bytes, item.id};
}

Placement with_fixed(const std::vector<Item>& fixed) {
  Placement out;
  for (const Item& i : fixed) {
    out.addresses.emplace_back(i.id, i.address);
    out.peak = std::max(out.peak, i.address + i.bytes);
  }
  return out;
}

// Places items in order of time; see allocate_in_time_order.
class InTimeOrder {
 public:
  InTimeOrder(const std::vector<Item>& items, const std::vector<Item>& fixed)
      : items_(items), fixed_(fixed), out_(with_fixed(fixed)) {}

  Placing run(std::int64_t capacity, std::int64_t bank, bool rolling) {
    std::int64_t pointer = 0;
    for (const Item& item : items_) {
      expire(item.start);
      Taken taken = taken_during(item);
      const auto at = find(taken, item.bytes, capacity, bank, rolling ? pointer : 0);
      if (!at) return Shortage{item, live_with(item)};
      pointer = *at + item.bytes;
      out_.addresses.emplace_back(item.id, *at);
      out_.peak = std::max(out_.peak, pointer);
      begin({*at, pointer, item.id}, item.end);
    }
    return std::move(out_);
  }

 private:
  void expire(std::int64_t now) {
    while (!expiry_.empty() && expiry_.top().time < now) {
      live_.erase(expiry_.top().bytes);
      expiry_.pop();
    }
  }

  void begin(const Interval& bytes, std::int64_t end) {
    live_.insert(bytes);
    expiry_.push({end, bytes});
  }

  Taken taken_during(const Item& item) {
    with_fixed_.clear();
    for (const Item& f : fixed_) {
      if (f.meets(item)) with_fixed_.push_back(interval_of(f));
    }
    if (with_fixed_.empty()) return live_.empty() ? Taken() : Taken(&*live_.begin(), live_.size());
    with_fixed_.insert(with_fixed_.end(), live_.begin(), live_.end());
    with_fixed_ = merged(std::move(with_fixed_));
    return with_fixed_;
  }

  std::vector<Item> live_with(const Item& item) const {
    std::vector<Item> live;
    for (const Expiry& e : expiry_) {
      live.push_back(*std::find_if(items_.begin(), items_.end(),
                                   [&](const Item& i) { return i.id == e.bytes.id; }));
    }
    std::copy_if(fixed_.begin(), fixed_.end(), std::back_inserter(live),
                 [&](const Item& f) { return f.meets(item); });
    return live;
  }

  const std::vector<Item>&items_, &fixed_;
  Placement out_;
  boost::container::flat_set<Interval> live_;
  boost::heap::priority_queue<Expiry, boost::heap::compare<std::greater<>>> expiry_;
  std::vector<Interval> with_fixed_;
};

// Small tiles above all large ones, lest they break up the space that those need.
Placing allocate_in_zones(const std::vector<Item>& items, std::int64_t capacity) {
  std::int64_t largest = 0;
  for (const Item& i : items) largest = std::max(largest, i.bytes);
  std::vector<Item> large, small;
  for (const Item& i : items) (i.bytes > largest / kSmall ? large : small).push_back(i);
  Placing lower = allocate_in_time_order(large, {}, capacity, 0, false);
  auto* out = std::get_if<Placement>(&lower);
  if (out == nullptr) return lower;
  const std::int64_t floor = round_up(out->peak, kAlign);
  Placing upper = allocate_in_time_order(small, {}, capacity - floor, 0, true);
  const auto* above = std::get_if<Placement>(&upper);
  if (above == nullptr) return upper;
  for (const auto& [id, at] : above->addresses) out->addresses.emplace_back(id, floor + at);
  out->peak = floor + above->peak;
  return lower;
}

Placing allocate_largest_first(std::vector<Item> items, const std::vector<Item>& fixed,
                               std::int64_t capacity, std::int64_t bank) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tuple(-a.bytes, a.start) < std::tuple(-b.bytes, b.start);
  });
  Placement out = with_fixed(fixed);
  std::vector<Item> placed = fixed;
  for (Item& item : items) {
    std::vector<Interval> taken;
    for (const Item& p : placed) {
      if (p.meets(item)) taken.push_back(interval_of(p));
    }
    const auto at = find(merged(std::move(taken)), item.bytes, capacity, bank, 0);
    if (!at) {
      std::erase_if(placed, [&](const Item& p) { return !p.meets(item); });
      return Shortage{item, std::move(placed)};
    }
    item.address = *at;
    out.addresses.emplace_back(item.id, *at);
    out.peak = std::max(out.peak, *at + item.bytes);
    placed.push_back(item);
  }
  return out;
}

// True if more than `capacity` bytes live at a time: then no placement exists.
bool more_lives_than(const std::vector<Item>& items, std::int64_t capacity) {
  std::vector<std::tuple<std::int64_t, bool, std::int64_t>> changes;  // time, an end, bytes
  for (const Item& i : items) {
    if (i.bytes > capacity) return true;  // so no sum below leaves its range
    changes.emplace_back(i.start, false, i.bytes);
    changes.emplace_back(i.end, true, -i.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t live = 0;
  for (const auto& change : changes) {
    live += std::get<2>(change);
    if (live > capacity) return true;
  }
  return false;
}

// By start, then by id.
void sort_by_start(std::vector<Item>& items) {
  const auto before = [](const Item& a, const Item& b) {
    return std::tuple(a.start, a.id) < std::tuple(b.start, b.id);
  };
  const auto latest = std::max_element(
      items.begin(), items.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  const bool in_order = std::is_sorted(items.begin(), items.end(),
                                       [](const auto& a, const auto& b) { return a.id < b.id; });
  constexpr std::int64_t kPlaces = 16;  // for each item: counting them pays
  if (!in_order || latest == items.end() ||
      latest->start > kPlaces * static_cast<std::int64_t>(items.size())) {
    std::sort(items.begin(), items.end(), before);
    return;
  }
  std::vector<std::uint32_t> places(static_cast<std::size_t>(latest->start) + 2, 0);
  for (const Item& item : items) ++places[static_cast<std::size_t>(item.start) + 1];
  for (std::size_t p = 1; p < places.size(); ++p) places[p] += places[p - 1];
  std::vector<Item> sorted(items.size());
  for (const Item& item : items) sorted[places[static_cast<std::size_t>(item.start)]++] = item;
  items = std::move(sorted);
}

}  // namespace

Placing allocate_in_time_order(const std::vector<Item>& items, const std::vector<Item>& fixed,
                               std::int64_t capacity, std::int64_t bank, bool rolling) {
  return InTimeOrder(items, fixed).run(capacity, bank, rolling);
}

Placing allocate(const std::vector<Item>& items, const AllocatorOptions& options) {
  std::vector<Item> fixed, free;
  for (const Item& i : items) (i.fixed() ? fixed : free).push_back(i);
  sort_by_start(free);
  const auto [capacity, bank, strict, thorough] = options;
  Placing first = allocate_in_time_order(free, fixed, capacity, bank, true);
  if (std::holds_alternative<Placement>(first)) return first;
  Placing next = allocate_in_time_order(free, fixed, capacity, bank, false);
  if (std::holds_alternative<Placement>(next)) return next;
  if (fixed.empty() && bank == 0) {
    next = allocate_in_zones(free, capacity);
    if (std::holds_alternative<Placement>(next)) return next;
  }
  if (!thorough || (strict && more_lives_than(items, capacity))) return first;
  next = allocate_largest_first(free, fixed, capacity, bank);
  if (std::holds_alternative<Placement>(next)) return next;
  return strict ? first : allocate_in_time_order(free, fixed, kBoundless, bank, false);
}

}  // namespace nkisim::compiler
