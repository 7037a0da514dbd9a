// Finds the earlier instructions of a basic block that touch the same bytes of memory.
#include "compiler/analysis/hazards.hpp"

#include <algorithm>
#include <utility>

namespace nkisim::compiler {
namespace {

constexpr std::int64_t kHazardPitch = 2048;
constexpr std::int64_t kHazardBuckets = 64;
constexpr std::size_t kFewEdges = 16;  // are looked through one by one

std::int64_t buckets_for(std::int64_t bytes, std::int64_t pitch) {
  return std::max<std::int64_t>(1, (bytes + pitch - 1) / pitch);
}

}  // namespace

Hazards::Hazards(const isa::Program& program, const isa::Uses& uses,
                 const std::vector<bool>& placed)
    : program_(program), uses_(uses), placed_(placed), tensors_(uses.operands().tensors()) {
  restart();
}

void Hazards::restart() {
  for (const std::uint32_t tensor : touched_) tensors_[tensor] = {};
  touched_.clear();
  arenas_.clear();
  free_arenas_.clear();
  buckets_.clear();
  entries_.clear();
  readers_.clear();
  gaps_.clear();
  const isa::Machine& machine = program_.machine();
  add_arena(machine.sbuf_partition_bytes, kHazardPitch);
  add_arena(machine.psum_partition_bytes, kHazardPitch);
}

std::uint32_t Hazards::add_arena(std::int64_t bytes, std::int64_t pitch) {
  const auto buckets = static_cast<std::uint32_t>(buckets_for(bytes, pitch));
  if (buckets < free_arenas_.size() && !free_arenas_[buckets].empty()) {
    const std::uint32_t arena = free_arenas_[buckets].back();
    free_arenas_[buckets].pop_back();
    arenas_[arena].pitch = pitch;
    return arena;
  }
  arenas_.push_back({pitch, static_cast<std::uint32_t>(buckets_.size()), buckets});
  buckets_.resize(buckets_.size() + buckets);
  return static_cast<std::uint32_t>(arenas_.size() - 1);
}

Hazards::OfTensor& Hazards::known(std::uint32_t tensor, isa::Space space) {
  OfTensor& of = tensors_[tensor];
  if (of.arena != kNone) return of;
  touched_.push_back(tensor);
  const std::int64_t bytes = uses_.operands().bytes(tensor);
  const bool own = space != isa::Space::kHbm && !placed_.empty() && !placed_[tensor];
  if (!own || bytes > kHazardPitch) {  // else it has one bucket, wherever it lies
    const isa::Tensor& t = program_.tensor(tensor);
    if (space != isa::Space::kHbm) of.base = t.address;
    if (space == isa::Space::kHbm && !t.written) {
      of.arena = kReadOnly;
      return of;
    }
    if (space != isa::Space::kHbm && !own) {
      of.arena = space == isa::Space::kSbuf ? 0 : 1;
      return of;
    }
  }
  of.arena = add_arena(bytes, std::max(kHazardPitch, bytes / kHazardBuckets + 1));
  return of;
}

void Hazards::collect(std::size_t i) {
  accesses_.clear();
  const isa::Operands& operands = uses_.operands();
  of_inst_.clear();
  of_inst_.reserve(operands.of(i).size());  // accesses point there
  for (const isa::Operand& operand : operands.of(i)) {
    const auto tensor = operand.tensor();
    const OfTensor& of = known(tensor, operand.space());
    if (of.arena == kReadOnly) continue;
    const isa::Operands::Reach& reach = operands.reach(operand);
    Access access{.bytes = {reach.first + of.base, reach.last + of.base, reach.partition,
                            reach.partition_end},
                  .tensor = tensor,
                  .arena = of.arena,
                  .write = operand.write(),
                  .last_use = of.arena > 1 && uses_.last(tensor) == i};
    if (!reach.dense()) {
      access.bytes.gaps = &of_inst_.emplace_back(operands.footprint(reach, of.base));
    }
    accesses_.push_back(access);
  }
}

void Hazards::note(std::uint32_t producer, bool reads, std::vector<Edge>& edges) {
  if (edges.size() >= kFewEdges) {
    note_among_many(producer, reads, edges);
    return;
  }
  for (Edge& edge : edges) {
    if (edge.producer != producer) continue;
    edge.reads |= reads;
    return;
  }
  edges.push_back({producer, reads});
}

void Hazards::note_among_many(std::uint32_t producer, bool reads, std::vector<Edge>& edges) {
  const auto place = [this](std::uint32_t n) -> std::uint32_t& {
    if (n >= edge_of_.size()) edge_of_.resize(n + n / 2 + 1);
    return edge_of_[n];
  };
  if (edges.size() == kFewEdges) {
    for (std::uint32_t e = 0; e < kFewEdges; ++e) place(edges[e].producer) = e;
  }
  std::uint32_t& at = place(producer);
  if (at < edges.size() && edges[at].producer == producer) {
    edges[at].reads |= reads;
    return;
  }
  at = static_cast<std::uint32_t>(edges.size());
  edges.push_back({producer, reads});
}

void Hazards::insert(const Access& access, std::uint32_t number) {
  const Arena arena = arenas_[access.arena];
  const isa::BucketRange range = arena.range(access.bytes);
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = buckets_[arena.bucket + b];
    if (access.write) {
      append(bucket.writes, access, number);
    } else {
      insert_read(bucket, access, number);
    }
  }
}

// Releases a tensor after its last use: no later access can conflict with it.
void Hazards::release(const Access& access) {
  OfTensor& of = tensors_[access.tensor];
  if (of.arena != access.arena) return;  // by another operand of the instruction
  const Arena& arena = arenas_[access.arena];
  for (std::size_t b = 0; b < arena.buckets; ++b) {
    Bucket& bucket = buckets_[arena.bucket + b];
    drop_all(bucket.writes);
    drop_all(bucket.reads);
    bucket.recent = {};
    bucket.oldest = 0;
  }
  if (arena.buckets >= free_arenas_.size()) free_arenas_.resize(arena.buckets + 1);
  free_arenas_[arena.buckets].push_back(access.arena);
  of = {};
}

// Behind the one that reads the same bytes, if that is one of the last few: a loop that reads the
// same again and again costs its writes no look at each iteration.
void Hazards::insert_read(Bucket& bucket, const Access& access, std::uint32_t number) {
  const Bytes& bytes = access.bytes;
  if (bytes.gaps != nullptr) {
    append(bucket.reads, access, number);
    return;
  }
  for (Entry* head : bucket.recent) {
    if (head == nullptr) continue;
    const Bytes& same = head->bytes;
    if (same.first == bytes.first && same.last == bytes.last && same.partition == bytes.partition &&
        same.partition_end == bytes.partition_end) {
      Reader& reader = readers_.take();
      reader.number = number;
      head->more.push_back(reader);
      return;
    }
  }
  bucket.recent[bucket.oldest] = &append(bucket.reads, access, number);
  bucket.oldest = bucket.oldest + 1 == bucket.recent.size() ? 0 : bucket.oldest + 1;
}

Hazards::Entry& Hazards::append(List<Entry>& list, const Access& access, std::uint32_t number) {
  Entry& entry = entries_.take();
  entry.bytes = access.bytes;
  entry.number = number;
  if (entry.bytes.gaps != nullptr) {
    isa::Footprint& gaps = gaps_.take();
    gaps = *entry.bytes.gaps;
    entry.bytes.gaps = &gaps;
  }
  list.push_back(entry);
  return entry;
}

// With those that read the same bytes.
void Hazards::drop(Entry& entry) {
  if (entry.bytes.gaps != nullptr) gaps_.give_back(*entry.bytes.gaps);
  entries_.give_back(entry);
  entry.more.clear_and_dispose([this](Reader* reader) { readers_.give_back(*reader); });
}

void Hazards::drop_all(List<Entry>& list) {
  list.clear_and_dispose([this](Entry* entry) { drop(*entry); });
}

isa::Footprint Hazards::footprint(const Bytes& bytes) {
  if (bytes.gaps != nullptr) return *bytes.gaps;
  isa::Footprint f;
  f.first = bytes.first;
  f.last = bytes.last;
  f.run = bytes.last - bytes.first;
  f.partition = bytes.partition;
  f.partition_end = bytes.partition_end;
  return f;
}

bool Hazards::overlap(const Bytes& a, const Bytes& b) {
  if (a.partition >= b.partition_end || b.partition >= a.partition_end) return false;
  if (a.first >= b.last || b.first >= a.last) return false;
  if (a.gaps == nullptr && b.gaps == nullptr) return true;
  return isa::may_overlap(footprint(a), footprint(b));
}

bool Hazards::covers(const Bytes& outer, const Bytes& inner, isa::BucketBytes within) {
  if (outer.gaps != nullptr) {
    return isa::covers(footprint(outer), footprint(inner), within.first, within.last);
  }
  return outer.partition <= inner.partition && outer.partition_end >= inner.partition_end &&
         outer.first <= std::max(within.first, inner.first) &&
         outer.last >= std::min(within.last, inner.last);
}

}  // namespace nkisim::compiler
