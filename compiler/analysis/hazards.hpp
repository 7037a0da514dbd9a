// Which earlier instructions an instruction must follow, before anything has run: the dependences a
// list scheduler may not break.
#pragma once

#include <vector>

#include "isa/program/footprint.hpp"

namespace nkisim::compiler {

/// Instructions of one basic block of one core, by their number in it, in program order.
class Hazards {
 public:
  struct Edge {
    std::uint32_t producer = 0;
    bool reads = false;  // reads what the producer wrote; else it only overwrites or is overwritten
  };
  /// `placed`: tensors whose address is final, by id; the others have storage of their own. Empty:
  /// all are.
  Hazards(const isa::Program& program, const std::vector<bool>& placed);
  /// Replaces `edges` by the instructions that `inst`, number `number`, must follow, each once.
  /// `done(n)`: nothing has to wait for instruction n any more.
  template <typename Done>
  void add(const isa::Inst& inst, std::uint32_t number, std::vector<Edge>& edges, Done&& done) {
    collect(inst);
    edges.clear();
    for (const bool writes : {false, true}) {
      for (const Access& a : accesses_) {
        if (a.write == writes) scan(a, edges, done);
      }
    }
    for (const Access& a : accesses_) insert(a, number);
  }

 private:
  struct Access {
    isa::Footprint bytes;
    std::uint32_t arena = 0;
    bool write = false;
  };
  struct Entry {
    isa::Footprint bytes;
    std::uint32_t number = 0;
  };
  struct Bucket {
    std::vector<Entry> writes, reads;
  };
  struct Arena {
    std::int64_t pitch = 1;
    std::vector<Bucket> buckets;
  };
  void collect(const isa::Inst& inst);
  std::uint32_t arena_of(const isa::TensorRef& ref);
  void insert(const Access& access, std::uint32_t number);
  void note(std::uint32_t producer, bool reads, std::vector<Edge>& edges);
  template <typename Done>
  void scan(const Access& access, std::vector<Edge>& edges, Done&& done);
  template <typename Done>
  void visit(std::vector<Entry>& entries, const Access& access, bool reads, std::int64_t first,
             std::int64_t last, std::vector<Edge>& edges, Done&& done);

  const isa::Program& program_;
  const std::vector<bool>& placed_;
  std::vector<Arena> arenas_;                // SBUF, PSUM, then tensors
  std::vector<std::uint32_t> tensor_arena_;  // by tensor; 0: none yet
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> edge_of_;  // by producer: where its edge may be in `edges`
};

template <typename Done>
void Hazards::visit(std::vector<Entry>& entries, const Access& access, bool reads,
                    std::int64_t first, std::int64_t last, std::vector<Edge>& edges, Done&& done) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    const bool overlaps = isa::may_overlap(e.bytes, access.bytes);
    if (overlaps) note(e.number, reads, edges);
    const bool retired =
        overlaps ? access.write && isa::covers(access.bytes, e.bytes, first, last) : done(e.number);
    if (!retired) {
      if (kept != i) entries[kept] = e;
      ++kept;
    }
  }
  entries.resize(kept);
}

template <typename Done>
void Hazards::scan(const Access& access, std::vector<Edge>& edges, Done&& done) {
  Arena& arena = arenas_[access.arena];
  const std::size_t count = arena.buckets.size();
  const isa::BucketRange range = isa::bucket_range(access.bytes, arena.pitch, count);
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = arena.buckets[b];
    const auto [first, last] = isa::bucket_bytes(b, arena.pitch, count);
    visit(bucket.writes, access, !access.write, first, last, edges, done);
    if (access.write) visit(bucket.reads, access, false, first, last, edges, done);
  }
}

}  // namespace nkisim::compiler
