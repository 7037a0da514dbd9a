// Which earlier instructions an instruction must follow, before anything has run: the dependences a
// list scheduler may not break.
#pragma once

#include <array>
#include <utility>
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
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Access {
    isa::Footprint bytes;
    std::uint32_t arena = 0;
    bool write = false;
  };
  // Of a bucket's list. Most footprints have no gaps: the bounds say all; `gaps` is where the whole
  // of another's is kept.
  struct Entry {
    std::int64_t first = 0, last = 0;
    std::int32_t partition = 0, partition_end = 0;
    std::uint32_t gaps = kNone;
    std::uint32_t number = 0;
    std::uint32_t next = kNone;
    std::uint32_t more = kNone;    // others that read the same bytes, in program order
    std::uint32_t newest = kNone;  // ... and the last of them
  };
  struct List {
    std::uint32_t first = kNone, last = kNone;  // in program order
  };
  struct Bucket {
    List writes, reads;
    std::array<std::uint32_t, 4> recent{kNone, kNone, kNone, kNone};  // of `reads`, without gaps
    std::size_t oldest = 0;                                           // of `recent`
  };
  struct Arena {
    std::int64_t pitch = 1;
    std::uint32_t bucket = 0, buckets = 0;  // the first and how many
    [[nodiscard]] isa::BucketRange range(const isa::Footprint& bytes) const {
      return buckets == 1 ? isa::BucketRange{0, 0} : isa::bucket_range(bytes, pitch, buckets);
    }
  };
  void collect(const isa::Inst& inst);
  std::uint32_t add_arena(std::int64_t bytes, std::int64_t pitch);
  std::uint32_t arena_of(const isa::TensorRef& ref);
  void insert(const Access& access, std::uint32_t number);
  void insert_read(Bucket& bucket, const Entry& entry);
  std::uint32_t append(List& list, const Entry& entry);
  std::uint32_t keep(const Entry& entry);
  void drop(std::uint32_t entry);
  template <typename Done>
  bool drop_done(std::uint32_t at, Done&& done);
  void note(std::uint32_t producer, bool reads, std::vector<Edge>& edges);
  [[nodiscard]] isa::Footprint footprint(const Entry& e) const;
  [[nodiscard]] bool overlap(const Entry& e, const isa::Footprint& bytes) const;
  template <typename Done>
  void scan(const Access& access, std::vector<Edge>& edges, Done&& done);
  // Whether entries went.
  template <typename Done>
  bool visit(List& list, const Access& access, bool reads, isa::BucketBytes of_bucket,
             std::vector<Edge>& edges, Done&& done);

  const isa::Program& program_;
  const std::vector<bool>& placed_;
  std::vector<Arena> arenas_;                // SBUF, PSUM, then tensors
  std::vector<Bucket> buckets_;              // arena by arena
  std::vector<std::uint32_t> tensor_arena_;  // by tensor; 0: none yet
  std::vector<Entry> entries_;               // in the lists of buckets, or free
  std::uint32_t free_ = kNone;               // the first that is free
  std::vector<isa::Footprint> gaps_;
  std::vector<std::uint32_t> free_gaps_;
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> edge_of_;  // by producer: where its edge may be in `edges`
};

// Forgets the first of those that read the same bytes, as long as nothing waits for it; whether
// that was all.
template <typename Done>
bool Hazards::drop_done(std::uint32_t at, Done&& done) {
  Entry& e = entries_[at];
  while (done(e.number)) {
    const std::uint32_t second = e.more;
    if (second == kNone) return true;
    e.number = entries_[second].number;
    e.more = std::exchange(entries_[second].more, kNone);
    drop(second);
  }
  return false;
}

template <typename Done>
bool Hazards::visit(List& list, const Access& access, bool reads, isa::BucketBytes of_bucket,
                    std::vector<Edge>& edges, Done&& done) {
  bool dropped = false;
  std::uint32_t* link = &list.first;
  list.last = kNone;
  while (*link != kNone) {
    const std::uint32_t at = *link;
    Entry& e = entries_[at];
    const bool overlaps = overlap(e, access.bytes);
    for (std::uint32_t n = overlaps ? at : kNone; n != kNone; n = entries_[n].more) {
      note(entries_[n].number, reads, edges);
    }
    const bool retired = overlaps ? access.write && isa::covers(access.bytes, footprint(e),
                                                                of_bucket.first, of_bucket.last)
                                  : drop_done(at, done);
    if (retired) {
      *link = e.next;
      drop(at);
      dropped = true;
    } else {
      list.last = at;
      link = &e.next;
    }
  }
  return dropped;
}

template <typename Done>
void Hazards::scan(const Access& access, std::vector<Edge>& edges, Done&& done) {
  const Arena arena = arenas_[access.arena];
  const isa::BucketRange range = arena.range(access.bytes);
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = buckets_[arena.bucket + b];
    const isa::BucketBytes bytes = isa::bucket_bytes(b, arena.pitch, arena.buckets);
    visit(bucket.writes, access, !access.write, bytes, edges, done);
    if (access.write && visit(bucket.reads, access, false, bytes, edges, done)) {
      bucket.recent.fill(kNone);
    }
  }
}

}  // namespace nkisim::compiler
