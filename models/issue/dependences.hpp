// Finds the earlier operations that an operation must wait for, from the bytes that they touch, as
// a compiler does to place semaphores.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "isa/program/footprint.hpp"
#include "models/core/completions.hpp"
#include "models/pool.hpp"

namespace nkisim::models {

/// A hazard between operations of one core.
struct Edge {
  enum class Kind : std::uint8_t { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
  QueueIndex queue = 0;      // producer's queue
  std::uint64_t number = 0;  // producer's number in it
  Kind kind = Kind::kReadAfterWrite;
  std::uint32_t order = 0;  // of the access that gave it; may wrap
};

/// Edges that are not needed: an operation's engine knows that the producer has finished, or runs
/// behind it.
struct NeedsNoEdge {
  std::array<std::uint64_t, isa::kEngineCount> finished{};  // up to these numbers of their queues
  QueueIndex ordered = kNoQueue;  // whose operations come in order, but for what they read
};

/// Sees the operations of one core in program order.
class Dependences {
 public:
  /// Queues below `first_unordered` finish their operations in order.
  Dependences(const isa::Program& program, QueueIndex first_unordered,
              const Completions& completions);
  /// Appends to `edges` the operations that `inst`, number `number` of `queue`, must wait for:
  /// for every in-order queue only the latest. Operations that completed before `horizon` may be
  /// left out, and what `left_out` says is.
  void add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
           std::uint64_t number, Fs horizon, const NeedsNoEdge& left_out, std::vector<Edge>& edges);

 private:
  static constexpr std::size_t kTidyBucket = 16;  // entries beyond which finished ones are dropped
  // The bytes of an access that is not dense, as long as entries refer to them.
  struct Strided {
    int references = 0;
    isa::Footprint bytes;
  };
  // An access in a bucket, with the bounds that decide most comparisons.
  struct Entry {
    std::int64_t first, last;
    std::int32_t partition, partition_end;
    std::uint64_t number;  // of the operation in its queue
    Strided* strided;      // null: all bytes within the bounds
    std::uint32_t order;   // of insertion; may wrap
    QueueIndex queue;
    bool write;
    [[nodiscard]] bool apart(const isa::Footprint& f) const {
      return first >= f.last || f.first >= last || partition >= f.partition_end ||
             f.partition >= partition_end;
    }
    [[nodiscard]] isa::Footprint bounds() const {
      return {.first = first,
              .last = last,
              .run = last - first,
              .partition = partition,
              .partition_end = partition_end};
    }
  };
  // Accesses to one bucket's bytes, in no order. Reads whose queues do not finish in order stand
  // apart: no read looks at them, so that many of one place cost each other nothing.
  struct Bucket {
    std::vector<Entry> entries, unordered_reads;
    std::size_t tidy_at = kTidyBucket;  // unordered reads, at which finished ones are dropped
  };
  // One address range (SBUF, PSUM or a tensor), cut into buckets of `pitch` bytes.
  struct Arena {
    std::int64_t pitch = 1;
    std::vector<Bucket> buckets;
  };
  // An operand and where its bytes are.
  struct Operand {
    isa::Footprint bytes;
    Arena* arena = nullptr;
    isa::BucketRange range{};
    bool write = false;
  };
  // The operands of an instruction whose addresses depend on no register.
  struct Known {
    const isa::Arg* args = nullptr;
    isa::Op op{};
    std::vector<Operand> operands;
  };
  [[nodiscard]] const std::vector<Operand>& operands(const isa::Inst& inst,
                                                     const isa::CoreState& state);
  // Reads first.
  bool find_operands(const isa::Inst& inst, const isa::CoreState& state,
                     std::vector<Operand>& found);
  [[nodiscard]] bool settled(const Entry& entry) const {
    return completions_.finished_before(entry.queue, entry.number, horizon_);
  }
  void scan(const Operand& access, std::vector<Edge>& edges);
  void drop_finished(Bucket& bucket);
  [[nodiscard]] static bool overlaps(const Entry& entry, const isa::Footprint& bytes) {
    if (entry.apart(bytes)) return false;
    return (entry.strided == nullptr && bytes.dense()) || overlap_with_gaps(entry, bytes);
  }
  [[nodiscard]] static bool overlap_with_gaps(const Entry& entry, const isa::Footprint& bytes);
  [[nodiscard]] bool superseded(const Entry& entry, const Operand& access, std::int64_t first,
                                std::int64_t last) const;
  [[nodiscard]] bool wants_edge(const Entry& entry, const Operand& access) const {
    if (!access.write && !entry.write) return false;
    if (entry.queue >= first_unordered_) return true;
    return entry.number > left_out_->finished[entry.queue] &&
           (entry.queue != left_out_->ordered || !access.write);
  }
  void insert(const Operand& access);
  void add_edge(const Entry& entry, const Operand& access, std::size_t first_edge,
                std::vector<Edge>& edges) const;
  Arena& arena(const isa::TensorRef& ref);
  Arena make_arena(std::int64_t bytes) const;
  void release(const Entry& entry) {
    if (entry.strided == nullptr || --entry.strided->references > 0) return;
    strided_.give_back(*entry.strided);
  }
  Strided* keep(const isa::Footprint& bytes);

  const isa::Program& program_;
  QueueIndex first_unordered_;
  const Completions& completions_;
  Fs horizon_ = 0;
  const NeedsNoEdge* left_out_ = nullptr;  // of the operation being added
  Arena sbuf_, psum_;
  std::unordered_map<std::uint32_t, Arena> tensors_;
  Pool<Strided> strided_;
  std::vector<Known> known_;       // by a hash of the arguments' place; a later one takes it
  std::uint64_t known_edits_ = 0;  // of the program they are known of
  std::uint32_t inserted_ = 0;
  QueueIndex queue_ = 0;  // of the operation being added
  std::uint64_t number_ = 0;
};

}  // namespace nkisim::models
