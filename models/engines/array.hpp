// Models the timing of the PE array: it loads weights in the background, and streams moving data.
#pragma once

#include <functional>
#include <vector>

#include "models/engines/throttle.hpp"
#include "models/issue/cost.hpp"

namespace nkisim::models {

/// Pure timing state of the array. Calls must come in program order.
class Array {
 public:
  explicit Array(std::reference_wrapper<const Config> config);

  struct Slot {
    Fs start = 0;              // start stamp of the instruction
    Fs busy_from = 0;          // the array's cells work from here
    Fs busy_to = 0;            // ... to here
    Fs end = 0;                // result written
    Fs throttled = 0;          // lost to the utilisation limit
    Fs sooner = 0, later = 0;  // by how much the end would differ if it were lifted or not
  };
  /// Earliest start of a part that could otherwise start at `at`.
  [[nodiscard]] Fs earliest(const isa::Part& part, Fs at) const;
  /// Runs the part; `at` must be at least earliest().
  Slot run(const isa::Part& part, const Cost& cost, Fs at);

 private:
  struct Cell {
    Fs streaming_from = 0;  // current multiply
    Fs streaming_to = 0;
    Fs weights_at = 0;  // weights loaded
  };
  [[nodiscard]] bool covers_all(const isa::Part& part) const;
  template <typename Fn>
  void for_cells(const isa::Part& part, Fn&& fn) const;
  [[nodiscard]] Cell latest(const isa::Part& part) const;
  /// Changes the cells of a part.
  template <typename Fn>
  void change(const isa::Part& part, Fn&& fn);
  [[nodiscard]] static bool is_load(const isa::Part& part) {
    return part.unit == isa::Unit::kTensor;
  }
  [[nodiscard]] Fs limited(Fs at, Fs free, Fs throttled) const;
  /// Streams a multiply from `from` on.
  Stretch stream(const isa::Part& part, Fs from, Fs full_rate_fs);
  /// The time when the next weights may be loaded.
  [[nodiscard]] Fs buffer_free(const Cell& cell) const {
    return config_.background_load ? cell.streaming_from : cell.streaming_to;
  }
  const ArrayConfig& config_;
  Throttle throttle_;
  int tile_, rows_, columns_;  // lines of a cell; cells
  std::vector<Cell> cells_;
  std::vector<Fs> counted_to_;  // per row of cells: streaming counted for the limit so far
  std::vector<Activity> active_;
  bool uniform_ = true;  // every cell is as the first: the rest is not kept up to date
};

}  // namespace nkisim::models
