// Declares Exchange, through which a collective moves data between the ranks of its group once all
// have arrived.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isa/base/alu.hpp"
#include "isa/machine/eval.hpp"

namespace nkisim::isa {

/// The data that one core's call reads, by parameter and place in its list.
using CoreSources = std::map<std::pair<std::int32_t, std::uint64_t>, Parcel>;
/// The same of the cores of a rank whose sources count: all, or core 0 for tensors in HBM.
using RankSources = std::vector<CoreSources>;

/// One rank at a collective: its instruction, as one of its cores calls it, and that core's view of
/// its memory. A rank of another process has no memory here but what it has sent.
struct Member {
  std::int64_t rank = 0;
  const Inst* inst = nullptr;
  EvalContext* context = nullptr;        // null: the rank is of another process
  const Program* program = nullptr;      // of such a rank; else null
  const CoreSources* sources = nullptr;  // null: they are read from memory
  [[nodiscard]] const Program& code() const {
    return context != nullptr ? context->program() : *program;
  }
};

/// The view of an op's `combine`: the members of one group in the group's order. All data are read
/// from memory as it is now, when the last member has arrived.
class Exchange {
 public:
  /// `only`: just this member is given anything (a run of one rank that stands for all).
  Exchange(std::span<const Member> members, const World& world,
           std::optional<std::size_t> only = {})
      : members_(members), world_(world), only_(only) {}

  [[nodiscard]] std::size_t size() const { return members_.size(); }
  /// The instruction of a member; all members agree on its arguments, and on
  /// shapes unless it counts.
  [[nodiscard]] const Inst& inst(std::size_t member = 0) const { return *members_[member].inst; }
  [[nodiscard]] std::int64_t rank(std::size_t member) const { return members_[member].rank; }
  [[nodiscard]] const World& world() const { return world_; }
  /// Position of a rank in the group.
  [[nodiscard]] std::size_t position(std::int64_t rank) const;

  /// A member's operand: element `at` of parameter `param` (0 where it holds one tensor).
  [[nodiscard]] const TensorRef& operand(std::size_t member, int param, std::size_t at = 0) const;
  [[nodiscard]] Parcel take(std::size_t member, int param, std::size_t at = 0) const;
  /// Writes a whole operand; `parcel` has its elements, row-major.
  void give(std::size_t member, int param, std::size_t at, const Parcel& parcel) const;
  /// Writes `parcel` to the operand's elements from `first` on, in row-major order.
  void give_part(std::size_t member, int param, const Parcel& parcel, std::int64_t first) const;
  /// Throws an Error located at a member's instruction, which names its rank.
  [[noreturn]] void refuse(std::size_t member, const std::string& message) const;

 private:
  [[nodiscard]] bool gives_to(std::size_t member) const {
    return (!only_ || *only_ == member) && members_[member].context != nullptr;
  }
  std::span<const Member> members_;
  const World& world_;
  std::optional<std::size_t> only_;
};

/// The parts of a parcel: `count` elements from `first` on, in row-major order.
[[nodiscard]] Parcel part_of(const Parcel& whole, std::int64_t first, std::int64_t count);
/// Appends the elements of `next`.
void append(Parcel& all, const Parcel& next);
/// Row-major concatenation along the columns: row r is row r of each part in order.
[[nodiscard]] Parcel side_by_side(std::span<const Parcel> parts);
/// ((part 0 op part 1) op part 2) ... element by element: floating-point types in FP32, rounded
/// once at the end; integers exactly, saturating at the end. `op` is add, minimum or maximum.
class Reduction {
 public:
  explicit Reduction(AluOp op) : op_(op) {}
  void add(const Parcel& part);
  /// To be called once, after the last part.
  [[nodiscard]] Parcel result();

 private:
  AluOp op_;
  Parcel frame_;  // of the first part, without its bytes
  std::size_t parts_ = 0;
  std::vector<float> reals_;
  std::vector<std::int64_t> integers_;
};

/// Throws Error, located at the first call, unless the other one belongs to it: it names both ranks
/// and both places.
void check_alike(const Member& first, const Member& other);

/// One rank at a collective: a member per core, in their order.
using RankCalls = std::vector<Member>;
/// The cores of a rank name the same instruction and, in HBM, the same tensors; throws Error.
void check_cores(std::span<const Member> cores);
/// All ranks of a group have come: checks that they make the same call and computes what each of
/// them gets. Of tensors in HBM core 0's call stands for the rank; tiles in SBUF are exchanged
/// between the cores of the same number. Throws Error.
void run_collective(std::span<const RankCalls> group, const World& world,
                    std::optional<std::size_t> only = {});
/// check_alike of all members, without values.
void check_collective(std::span<const RankCalls> group);

/// The data that the cores of a rank read in a call, from memory as it is now.
[[nodiscard]] RankSources read_sources(const RankCalls& calls);

/// Bytes that a rank sends in an operation of variable lengths to each member of its group, by what
/// its metadata say now; empty for any other operation.
[[nodiscard]] std::vector<std::int64_t> lengths_from(const Member& member, std::size_t group_size);

/// "all_gather at k.py:12".
[[nodiscard]] std::string describe_call(const Program& program, const Inst& inst);

}  // namespace nkisim::isa
