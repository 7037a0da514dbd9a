// Finds the earlier instructions that an instruction must follow because they touch the same
// memory. A list scheduler may not break these dependences.
#pragma once

#include <array>
#include <boost/intrusive/slist.hpp>
#include <vector>

#include "isa/program/uses.hpp"
#include "models/pool.hpp"

namespace nkisim::compiler {

/// Instructions of one basic block of one core, by their number in it, in program order.
class Hazards {
 public:
  struct Edge {
    std::uint32_t producer = 0;
    bool reads = false;  // reads what the producer wrote; else it only overwrites or is overwritten
  };
  /// `uses` are the program's as it is. `placed`: tensors whose address is final, by id; the others
  /// have storage of their own. Empty: all are.
  Hazards(const isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed);
  /// Begins another block.
  void restart();
  /// Replaces `edges` by the instructions that the program's instruction `i`, number `number` of
  /// the block, must follow, each once. `done(n)`: nothing has to wait for instruction n any more.
  template <typename Done>
  void add(std::size_t i, std::uint32_t number, std::vector<Edge>& edges, Done&& done) {
    collect(i);
    edges.clear();
    for (const bool writes : {false, true}) {
      for (const Access& a : accesses_) {
        if (a.write == writes) scan(a, edges, done);
      }
    }
    for (const Access& a : accesses_) {
      a.last_use ? release(a) : insert(a, number);
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kReadOnly = kNone - 1;  // instead of an arena
  // Most have no gaps: the bounds say all; else `gaps` is the whole footprint.
  struct Bytes {
    std::int64_t first = 0, last = 0;
    std::int32_t partition = 0, partition_end = 0;
    isa::Footprint* gaps = nullptr;
  };
  struct Access {
    Bytes bytes;  // gaps: in of_inst_
    std::uint32_t tensor = 0, arena = 0;
    bool write = false;
    bool last_use = false;  // nothing that follows reaches its arena
  };
  using Hook =
      boost::intrusive::slist_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;
  // In program order.
  template <typename T>
  using List =
      boost::intrusive::slist<T, boost::intrusive::constant_time_size<false>,
                              boost::intrusive::linear<true>, boost::intrusive::cache_last<true>>;
  struct Reader : Hook {
    std::uint32_t number = 0;
  };
  // An access in a bucket.
  struct Entry : Hook {
    Bytes bytes;  // gaps: in gaps_
    std::uint32_t number = 0;
    List<Reader> more;  // others that read the same bytes
  };
  struct Bucket {
    List<Entry> writes, reads;
    std::array<Entry*, 4> recent{};  // of `reads`, without gaps
    std::uint32_t oldest = 0;        // of `recent`
  };
  struct Arena {
    std::int64_t pitch = 1;
    std::uint32_t bucket = 0, buckets = 0;  // the first and how many
    [[nodiscard]] isa::BucketRange range(const Bytes& bytes) const {
      if (buckets == 1) return {0, 0};
      isa::Footprint f;
      f.first = bytes.first;
      f.last = bytes.last;
      return isa::bucket_range(f, pitch, buckets);
    }
  };
  struct OfTensor {
    std::int64_t base = 0;        // its address, where that decides its buckets
    std::uint32_t arena = kNone;  // none yet
  };
  void collect(std::size_t i);
  OfTensor& known(std::uint32_t tensor, isa::Space space);
  std::uint32_t add_arena(std::int64_t bytes, std::int64_t pitch);
  void insert(const Access& access, std::uint32_t number);
  void release(const Access& access);
  void insert_read(Bucket& bucket, const Access& access, std::uint32_t number);
  Entry& append(List<Entry>& list, const Access& access, std::uint32_t number);
  void drop(Entry& entry);
  void drop_all(List<Entry>& list);
  template <typename Done>
  bool drop_done(Entry& entry, Done&& done);
  void note(std::uint32_t producer, bool reads, std::vector<Edge>& edges);
  void note_among_many(std::uint32_t producer, bool reads, std::vector<Edge>& edges);
  [[nodiscard]] static isa::Footprint footprint(const Bytes& bytes);
  [[nodiscard]] static bool overlap(const Bytes& a, const Bytes& b);
  [[nodiscard]] static bool covers(const Bytes& outer, const Bytes& inner, isa::BucketBytes within);
  template <typename Done>
  void scan(const Access& access, std::vector<Edge>& edges, Done&& done);
  // True if it removed entries.
  template <typename Done>
  bool visit(List<Entry>& list, const Access& access, bool reads, isa::BucketBytes of_bucket,
             std::vector<Edge>& edges, Done&& done);

  const isa::Program& program_;
  const isa::Uses& uses_;
  const std::vector<bool>& placed_;
  std::vector<Arena> arenas_;                            // SBUF, PSUM, then tensors
  std::vector<std::vector<std::uint32_t>> free_arenas_;  // by their number of buckets
  std::vector<Bucket> buckets_;                          // arena by arena
  std::vector<OfTensor> tensors_;
  std::vector<std::uint32_t> touched_;  // tensors that are known
  models::Pool<Entry> entries_;
  models::Pool<Reader> readers_;
  models::Pool<isa::Footprint> gaps_;
  std::vector<Access> accesses_;
  std::vector<isa::Footprint> of_inst_;  // of the accesses with gaps
  std::vector<std::uint32_t> edge_of_;   // by producer: where its edge may be in `edges`
};

// Forgets the first of those that read the same bytes, as long as nothing waits for it; whether
// that was all.
template <typename Done>
bool Hazards::drop_done(Entry& e, Done&& done) {
  while (done(e.number)) {
    if (e.more.empty()) return true;
    Reader& second = e.more.front();
    e.number = second.number;
    e.more.pop_front();
    readers_.give_back(second);
  }
  return false;
}

template <typename Done>
bool Hazards::visit(List<Entry>& list, const Access& access, bool reads, isa::BucketBytes of_bucket,
                    std::vector<Edge>& edges, Done&& done) {
  bool dropped = false;
  auto before = list.before_begin();
  for (auto at = list.begin(); at != list.end();) {
    Entry& e = *at;
    bool retired = false;
    if (overlap(e.bytes, access.bytes)) {
      note(e.number, reads, edges);
      for (const Reader& r : e.more) note(r.number, reads, edges);
      retired = access.write && covers(access.bytes, e.bytes, of_bucket);
    } else {
      retired = drop_done(e, done);
    }
    if (retired) {
      at = list.erase_after(before);
      drop(e);
      dropped = true;
    } else {
      before = at++;
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
      bucket.recent.fill(nullptr);
    }
  }
}

}  // namespace nkisim::compiler
