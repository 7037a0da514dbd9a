// Counts the bytes of SBUF and PSUM that live tiles take while the compiler reorders instructions.
// Tiles have no addresses yet, so only the sum is known.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "isa/program/uses.hpp"

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

/// Bytes that lives fill at the positions that a front has not passed: lives may begin and end
/// before their positions come. A change takes O(log n), as does a question about a few thousand
/// positions.
class Occupancy {
 public:
  explicit Occupancy(std::size_t positions);
  /// Before find_sums(): a life at positions [first, last]; `awaited` if it has yet to begin().
  void add(std::size_t first, std::size_t last, std::int64_t bytes, bool awaited);
  void find_sums();
  /// Moves the front on to `front`; never back.
  void advance(std::size_t front);
  /// An awaited life that has its first position at `first` begins at the front.
  void begin(std::size_t first, std::int64_t bytes);
  /// A life that has its last position at `last` ends at the front.
  void end(std::size_t last, std::int64_t bytes);
  /// The most that is filled at a position from the front to before `until`, and the bytes that all
  /// awaited lives take that have their first position before `until`. `until` is behind the front.
  [[nodiscard]] std::int64_t most(std::size_t until) const;
  /// The bytes filled at the front.
  [[nodiscard]] std::int64_t now() const { return filled_; }

 private:
  static constexpr std::size_t kBlock = 8;   // positions whose sums are not kept one by one
  static constexpr std::size_t kHeight = 9;  // of the trees above the blocks
  struct Step {                              // from one position to the next
    std::int64_t change = 0, awaited = 0;
  };
  struct Sum {                             // of some steps
    std::int64_t change = 0, highest = 0;  // `highest`: after the first few, or none, of them
    std::int64_t awaited = 0;
    void then(std::int64_t more, std::int64_t most, std::int64_t waiting) {
      highest = std::max(highest, change + most);
      change += more;
      awaited += waiting;
    }
  };
  void update(std::size_t position);
  [[nodiscard]] Sum of_block(std::size_t block) const;
  [[nodiscard]] std::size_t place(std::size_t level, std::size_t node) const {
    return levels_.at(level) + node;
  }

  std::vector<Step> steps_;                        // by position
  std::vector<Sum> sums_;                          // of blocks, of pairs of them, ...
  std::array<std::size_t, kHeight + 1> levels_{};  // where in sums_ each kind begins
  std::size_t front_ = 0;
  std::int64_t filled_ = 0;   // at the front
  std::int64_t awaited_ = 0;  // first positions before the front
};

/// The bytes per partition of SBUF that passes may fill by longer lives of tiles: three quarters.
/// The scheduler has the rest.
[[nodiscard]] std::int64_t budget_for_longer_lifetimes(const isa::Machine& machine);

/// Follows one core. Positions count its instructions in program order; whatever has been executed
/// early, the rest can still be executed in program order from the first that is left. Fronts never
/// go back; `i` is an instruction's number in the program.
class SbufBudget {
 public:
  struct Limits {
    double share = 1;     // of SBUF that may be filled
    bool packed = false;  // narrow tiles count by the quadrants they take
  };
  /// `mine`: the core's instructions; `uses` and `placed` as for Hazards.
  SbufBudget(const isa::Program& program, const isa::Uses& uses,
             std::span<const std::uint32_t> mine, const std::vector<bool>& placed, Limits limits);
  /// True if an instruction fits when it is executed now. Position `front` is the first not
  /// executed. It leaves capacity for all lives that begin before it in the program: the nearer use
  /// goes first.
  [[nodiscard]] bool fits(std::uint32_t i, std::size_t front);
  /// True if the instruction begins a tile's life.
  [[nodiscard]] bool begins(std::uint32_t i) const;
  /// Executes it; true if that ended a tile's life.
  bool execute(std::uint32_t i, std::size_t front);
  [[nodiscard]] bool tracks() const { return tracks_; }

 private:
  struct Life {
    std::int64_t bytes = 0;
    std::uint32_t first = 0, last = 0;
    std::uint32_t left = 0;  // uses to come
    bool followed = false;
    bool born = false;
    bool whole = false;  // lives through a loop: never ends early
  };
  template <typename Fn>
  void each_life(std::uint32_t i, Fn&& fn) const;
  void find_uses(const isa::Program& program, std::span<const std::uint32_t> mine);
  void fill(const isa::Program& program, std::size_t positions, const std::vector<bool>& placed,
            bool packed);
  [[nodiscard]] static std::size_t index(isa::Space space) {
    return space == isa::Space::kSbuf ? 0 : 1;
  }

  const isa::Operands& operands_;
  std::vector<Life> lives_;                                     // by tensor
  std::vector<std::pair<std::uint32_t, std::uint32_t>> loops_;  // first and last positions
  std::array<std::int64_t, 2> capacity_{};
  std::vector<Occupancy> filled_;  // SBUF, PSUM
  bool tracks_ = false;
};

}  // namespace nkisim::compiler
