// Computes when the PE array takes weights and moving data, cell by cell.
#include "models/engines/array.hpp"

#include <algorithm>
#include <cmath>

namespace nkisim::models {
namespace {

// Cells [first, last) covered by `size` lines from `start`; a size of 0 means all of them.
struct Span {
  int first, last;
};
Span cells_of(int start, int size, int tile, int cells) {
  if (size <= 0) return {0, cells};
  const int first = std::clamp(start / tile, 0, cells - 1);
  return {first, std::clamp((start + size + tile - 1) / tile, first + 1, cells)};
}

}  // namespace

Array::Array(std::reference_wrapper<const Config> config)
    : config_(config.get().array),
      throttle_(config.get().throttle),
      tile_(std::min({config.get().array.tile, config.get().pe_rows, config.get().pe_columns})),
      rows_(config.get().pe_rows / tile_),
      columns_(config.get().pe_columns / tile_),
      cells_(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_)),
      counted_to_(static_cast<std::size_t>(rows_), 0) {}

bool Array::covers_all(const isa::Part& part) const {
  const auto all = [this](int start, int size, int cells) {
    return size <= 0 || (start == 0 && size >= cells * tile_);
  };
  return all(part.row_start, part.rows, rows_) && all(part.column_start, part.columns, columns_);
}

template <typename Fn>
void Array::for_cells(const isa::Part& part, Fn&& fn) const {
  const Span r = cells_of(part.row_start, part.rows, tile_, rows_);
  const Span c = cells_of(part.column_start, part.columns, tile_, columns_);
  for (int i = r.first; i < r.last; ++i) {
    for (int j = c.first; j < c.last; ++j) {
      fn(static_cast<std::size_t>(i * columns_ + j));
    }
  }
}

template <typename Fn>
void Array::change(const isa::Part& part, Fn&& fn) {
  if (uniform_ && covers_all(part)) {
    fn(cells_.front());
    return;
  }
  if (uniform_) std::fill(cells_.begin() + 1, cells_.end(), cells_.front());
  uniform_ = false;
  for_cells(part, [&](std::size_t i) { fn(cells_[i]); });
}

Array::Cell Array::latest(const isa::Part& part) const {
  if (uniform_) return cells_.front();
  Cell all;
  for_cells(part, [&](std::size_t i) {
    const Cell& c = cells_[i];
    all.streaming_from = std::max(all.streaming_from, c.streaming_from);
    all.streaming_to = std::max(all.streaming_to, c.streaming_to);
    all.weights_at = std::max(all.weights_at, c.weights_at);
  });
  return all;
}

Fs Array::earliest(const isa::Part& part, Fs at) const {
  const Cell cell = latest(part);
  const Fs lead = limited(at, config_.lead, config_.lead_throttled);
  return std::max(at, (is_load(part) ? buffer_free(cell) : cell.streaming_to) - lead);
}

// A time at `at` that the limit changes.
Fs Array::limited(Fs at, Fs free, Fs throttled) const {
  const double level = throttle_.level(at);
  if (level >= 1) return free;
  if (level <= 0) return throttled;
  return throttled + static_cast<Fs>(std::llround(level * static_cast<double>(free - throttled)));
}

// For the limit a multiply counts with the rows that it uses, of those that operands can fill;
// multiplies on the same rows and other columns at the same time once.
Stretch Array::stream(const isa::Part& part, Fs from, Fs full_rate_fs) {
  const Span span = cells_of(part.row_start, part.rows, tile_, rows_);
  const int lines = std::min(rows_ * tile_, isa::kPartitions);
  const double rows = part.rows > 0 ? std::min(part.rows, lines) : lines;
  active_.clear();
  Counted weight = throttle_.activity(rows, lines);
  const double cells = span.last - span.first;
  weight = {weight.share / cells, weight.least / cells, weight.most / cells};
  for (int i = span.first; i < span.last; ++i) {
    active_.push_back({counted_to_[static_cast<std::size_t>(i)], weight});
  }
  const Stretch done = throttle_.finish(from, full_rate_fs, active_);
  for (int i = span.first; i < span.last; ++i) {
    Fs& to = counted_to_[static_cast<std::size_t>(i)];
    to = std::max(to, done.end);
  }
  return done;
}

Array::Slot Array::run(const isa::Part& part, const Cost& cost, Fs at) {
  throttle_.begin(at);
  const Cell cell = latest(part);
  const Fs bubble = limited(at, config_.bubble, config_.bubble_throttled);
  Slot slot{.start = at};
  Stretch took;
  if (is_load(part)) {
    const bool behind = config_.background_load && cell.streaming_from > at;
    slot.busy_from = std::max(at, buffer_free(cell) + (behind ? bubble : 0));
    took = throttle_.finish(slot.busy_from, cost.stream, {});
    slot.busy_to = took.end;
    change(part, [&](Cell& c) { c.weights_at = slot.busy_to; });
  } else {
    // The least time of a short multiply is that of the same pipeline: it covers the bubble.
    slot.busy_from =
        std::max({at, cell.weights_at, cell.streaming_to}) + std::max<Fs>(0, bubble - cost.padding);
    took = stream(part, slot.busy_from, cost.stream);
    slot.busy_to = took.end;
    change(part, [&](Cell& c) {
      c.streaming_from = slot.busy_from;
      c.streaming_to = slot.busy_to;
    });
  }
  slot.throttled = slot.busy_to - slot.busy_from - cost.stream;
  slot.sooner = took.sooner;
  slot.later = took.later;
  slot.end = slot.busy_to + cost.fixed;
  return slot;
}

}  // namespace nkisim::models
