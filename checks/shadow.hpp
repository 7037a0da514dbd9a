// Declares the race check's shadow memory: for each byte, the last accesses that could still
// conflict.
#pragma once

#include <unordered_map>

#include "checks/overlap.hpp"
#include "checks/stream.hpp"
#include "models/pool.hpp"

namespace nkisim::checks {

/// One operand of one step.
struct Access {
  isa::Footprint bytes;
  const isa::TensorRef* ref = nullptr;
  std::uint32_t step = 0;
  bool write = false;
};

class Shadow {
 public:
  explicit Shadow(const isa::Program& program)
      : program_(program), of_tensor_(program.tensors().size(), nullptr) {}

  /// Calls fn(earlier access) -> bool for every remembered access that may share bytes with
  /// `access` where one of the two writes; fn says whether the earlier one is out of the way (in
  /// order, or reported). Remembers `access` with insert().
  /// replaces(earlier read) -> bool: whether `access` stands for it in all that follows.
  template <typename Conflict, typename Replaces>
  void scan(const Access& access, const Conflict& conflict, const Replaces& replaces);
  void insert(const Access& access);

 private:
  struct Record {
    Access access;
    std::uint64_t visited = 0;
    bool settled = false;
    int references = 0;
  };
  struct Arena {
    std::int64_t pitch = 1;
    std::vector<std::vector<Record*>> buckets;
  };
  Arena& arena(const isa::TensorRef& ref) {
    Arena*& known = of_tensor_[ref.tensor];
    if (known == nullptr) known = &find_arena(ref);
    return *known;
  }
  Arena& find_arena(const isa::TensorRef& ref);
  void release(Record* record);

  const isa::Program& program_;
  std::unordered_map<std::uint64_t, Arena> arenas_;
  std::vector<Arena*> of_tensor_;
  models::Pool<Record> records_;
  std::uint64_t visit_ = 0;
};

template <typename Conflict, typename Replaces>
void Shadow::scan(const Access& access, const Conflict& conflict, const Replaces& replaces) {
  Arena& arena = this->arena(*access.ref);
  const std::size_t count = arena.buckets.size();
  const auto range = isa::bucket_range(access.bytes, arena.pitch, count);
  ++visit_;
  for (std::size_t b = range.from; b <= range.to; ++b) {
    auto& bucket = arena.buckets[b];
    const auto [first, last] = isa::bucket_bytes(b, arena.pitch, count);
    std::size_t kept = 0;
    for (Record* r : bucket) {
      const Access& earlier = r->access;
      bool gone = false;
      if (isa::may_overlap(earlier.bytes, access.bytes)) {
        const bool conflicts = access.write || earlier.write;
        if (r->visited != visit_) {
          r->visited = visit_;
          r->settled = conflicts ? conflict(earlier) : replaces(earlier);
        }
        // A write stands for what it overwrites, a read for an earlier read of the same bytes.
        gone = r->settled && access.write >= earlier.write &&
               isa::covers(access.bytes, earlier.bytes, first, last);
      }
      if (gone) {
        release(r);
      } else {
        bucket[kept++] = r;
      }
    }
    bucket.erase(bucket.begin() + static_cast<std::ptrdiff_t>(kept), bucket.end());
  }
}

}  // namespace nkisim::checks
