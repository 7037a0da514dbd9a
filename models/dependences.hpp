// Which earlier operations an operation must wait for, from the bytes they touch: the part of a
// compiler that would place semaphores.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "models/completions.hpp"
#include "models/footprint.hpp"

namespace nkisim::models {

/// A hazard between operations of one core.
struct Edge {
  enum class Kind : std::uint8_t { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
  QueueIndex queue = 0;      // producer's queue
  std::uint64_t number = 0;  // producer's number in it
  std::int16_t param = -1;   // consumer's parameter; -1: index of a dynamic address
  Kind kind = Kind::kReadAfterWrite;
};

/// Sees the operations of one core in program order.
class Dependences {
 public:
  using Settled = std::function<bool(QueueIndex, std::uint64_t)>;
  /// `settled` says that an operation finished so long ago that nobody needs to wait for it.
  /// Queues below `first_unordered` finish their operations in order.
  Dependences(const isa::Program& program, int core, QueueIndex first_unordered, Settled settled);
  /// Appends to `edges` the operations that `inst`, number `number` of `queue`, must wait for:
  /// for every in-order queue only the latest.
  void add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
           std::uint64_t number, std::vector<Edge>& edges);

 private:
  struct Record {
    Footprint bytes;
    std::uint64_t number = 0;
    std::uint64_t visited = 0;
    QueueIndex queue = 0;
    bool write = false;
    int references = 0;
  };
  // One address range (SBUF, PSUM or a tensor), cut into buckets of `pitch` bytes.
  struct Arena {
    std::int64_t pitch = 1;
    std::vector<std::vector<Record*>> buckets;
  };
  struct Access {
    const isa::TensorRef* ref;
    std::int16_t param;
    bool write;
  };
  void collect(const isa::Inst& inst);
  void scan(Arena& arena, const Access& access, const Footprint& bytes, QueueIndex queue,
            std::uint64_t number, std::vector<Edge>& edges);
  void insert(Arena& arena, const Access& access, const Footprint& bytes, QueueIndex queue,
              std::uint64_t number);
  void add_edge(const Record& record, const Access& access, std::vector<Edge>& edges) const;
  Arena& arena(const isa::TensorRef& ref);
  Arena make_arena(std::int64_t bytes) const;
  void release(Record* record);
  Record* allocate();
  void find_written();

  const isa::Program& program_;
  int core_;
  QueueIndex first_unordered_;
  Settled settled_;
  Arena sbuf_, psum_;
  std::unordered_map<std::uint32_t, Arena> tensors_;
  std::vector<bool> written_;  // tensors the program writes
  std::deque<Record> records_;
  std::vector<Record*> free_;
  std::vector<Access> accesses_;
  std::vector<Footprint> footprints_;
  std::uint64_t visit_ = 0;
};

}  // namespace nkisim::models
