// How much of SBUF and PSUM the tiles of a program fill while its order changes: tiles have no
// addresses yet, so only their sum is known.
#pragma once

#include <array>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Values at positions, with addition to a range and the maximum of a range in O(log n).
class RangeMax {
 public:
  explicit RangeMax(std::size_t size);
  void add(std::size_t from, std::size_t to, std::int64_t value);  // [from, to)
  [[nodiscard]] std::int64_t max(std::size_t from, std::size_t to) const;

 private:
  std::size_t size_ = 1;
  std::vector<std::int64_t> highest_, added_;
};

/// Values at positions, with the sum of all before a position in O(log n).
class PrefixSum {
 public:
  explicit PrefixSum(std::size_t size) : sums_(size + 1, 0) {}
  void add(std::size_t at, std::int64_t value);
  [[nodiscard]] std::int64_t before(std::size_t end) const;

 private:
  std::vector<std::int64_t> sums_;  // a Fenwick tree
};

/// Of a partition of SBUF, the bytes that tiles may fill whose lives a pass makes longer: three
/// quarters. The rest is the scheduler's.
[[nodiscard]] std::int64_t room_for_longer_lives(const isa::Machine& machine);

/// Follows one core. Positions count its instructions in program order; whatever has been executed
/// early, the rest can still be executed in program order from the first that is left.
class Room {
 public:
  struct Limits {
    double share = 1;     // of SBUF that may be filled
    bool packed = false;  // narrow tiles count by the quadrants they take
  };
  /// `placed` as for Hazards.
  Room(const isa::Program& program, int core, const std::vector<bool>& placed, Limits limits);
  /// Whether an instruction fits if it is executed now, position `front` being the first left, and
  /// leaves room to all that the program begins before it: the nearer use has the first claim.
  [[nodiscard]] bool fits(const isa::Inst& inst, std::size_t front) const;
  /// True if the instruction begins a tile's life.
  [[nodiscard]] bool begins(const isa::Inst& inst) const;
  /// Executes it; true if that ended a tile's life.
  bool execute(const isa::Inst& inst, std::size_t front);
  [[nodiscard]] bool tracks() const { return tracks_; }

 private:
  struct Life {
    std::size_t first = 0, last = 0;
    std::uint32_t uses = 0, left = 0;
    std::int64_t bytes = 0;
    bool born = false;
    bool whole = false;  // lives through a loop: never ends early
  };
  template <typename Fn>
  void each_life(const isa::Inst& inst, Fn&& fn) const;
  void find_lives(const isa::Program& program, int core, const std::vector<bool>& placed,
                  bool packed);
  [[nodiscard]] static std::size_t index(isa::Space space) {
    return space == isa::Space::kSbuf ? 0 : 1;
  }

  std::vector<Life> lives_;  // by tensor; no uses: not followed
  std::array<std::int64_t, 2> capacity_{};
  std::vector<RangeMax> filled_;   // SBUF, PSUM
  std::vector<PrefixSum> unborn_;  // bytes of tiles to come, by the first use
  bool tracks_ = false;
};

}  // namespace nkisim::compiler
