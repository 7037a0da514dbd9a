// Which earlier operations an operation must wait for, from the bytes they touch: the part of a
// compiler that would place semaphores.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "isa/program/footprint.hpp"
#include "models/completions.hpp"

namespace nkisim::models {

/// A hazard between operations of one core.
struct Edge {
  enum class Kind : std::uint8_t { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
  QueueIndex queue = 0;      // producer's queue
  std::uint64_t number = 0;  // producer's number in it
  Kind kind = Kind::kReadAfterWrite;
};

/// Sees the operations of one core in program order.
class Dependences {
 public:
  /// Queues below `first_unordered` finish their operations in order.
  Dependences(const isa::Program& program, QueueIndex first_unordered,
              const Completions& completions);
  /// Appends to `edges` the operations that `inst`, number `number` of `queue`, must wait for:
  /// for every in-order queue only the latest. Operations that completed before `horizon` may be
  /// left out.
  void add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
           std::uint64_t number, Fs horizon, std::vector<Edge>& edges);

 private:
  struct Record {
    std::uint64_t number = 0;
    std::uint64_t visited = 0;
    int references = 0;
    QueueIndex queue = 0;
    bool write = false;
    isa::Footprint bytes;
  };
  // A record in a bucket, with the bounds that decide most comparisons.
  struct Entry {
    std::int64_t first, last;
    std::int32_t partition, partition_end;
    Record* record;
    [[nodiscard]] bool apart(const isa::Footprint& f) const {
      return first >= f.last || f.first >= last || partition >= f.partition_end ||
             f.partition >= partition_end;
    }
  };
  // One address range (SBUF, PSUM or a tensor), cut into buckets of `pitch` bytes.
  struct Arena {
    std::int64_t pitch = 1;
    std::vector<std::vector<Entry>> buckets;
  };
  // An operand and where its bytes are.
  struct Operand {
    isa::Footprint bytes;
    Arena* arena = nullptr;
    isa::BucketRange range{};
    bool write = false;
  };
  // Those of an instruction whose addresses no register decides.
  struct Known {
    const isa::Arg* args = nullptr;
    isa::Op op{};
    std::vector<Operand> operands;
  };
  struct Access {
    bool write;
    Record* record;
    Arena* arena;
    isa::BucketRange range;
  };
  void collect(const isa::Inst& inst, const isa::CoreState& state);
  [[nodiscard]] const std::vector<Operand>& operands(const isa::Inst& inst,
                                                     const isa::CoreState& state);
  bool find_operands(const isa::Inst& inst, const isa::CoreState& state,
                     std::vector<Operand>& found);
  [[nodiscard]] bool settled(const Record& record) const {
    return completions_.finished_before(record.queue, record.number, horizon_);
  }
  void scan(const Access& access, std::vector<Edge>& edges);
  [[nodiscard]] bool superseded(const Entry& entry, const Access& access, std::int64_t first,
                                std::int64_t last) const;
  static void insert(const Access& access);
  void add_edge(const Record& record, const Access& access, std::vector<Edge>& edges) const;
  Arena& arena(const isa::TensorRef& ref);
  Arena make_arena(std::int64_t bytes) const;
  void release(Record* record);
  Record* allocate();

  const isa::Program& program_;
  QueueIndex first_unordered_;
  const Completions& completions_;
  Fs horizon_ = 0;
  Arena sbuf_, psum_;
  std::unordered_map<std::uint32_t, Arena> tensors_;
  std::deque<Record> records_;
  std::vector<Record*> free_;
  std::vector<Known> known_;       // by a hash of the arguments' place; a later one takes it
  std::uint64_t known_edits_ = 0;  // of the program they are known of
  std::vector<Access> accesses_;
  QueueIndex queue_ = 0;  // of the operation being added
  std::uint64_t number_ = 0;
  std::uint64_t visit_ = 0;
};

}  // namespace nkisim::models
