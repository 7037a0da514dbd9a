// Finds the earlier operations of a core that touch the same bytes of memory.
#include "models/issue/dependences.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

constexpr std::int64_t kSbufPitch = 2048;
constexpr std::int64_t kPsumPitch = 2048;  // a bank
constexpr std::int64_t kMinTensorPitch = 4096;
constexpr std::int64_t kMaxBuckets = 64;
constexpr std::size_t kKnownOperands = 2048;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Numbers that wrap are near each other.
bool comes_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

// Without the dims that it has not.
void copy_footprint(const isa::Footprint& from, isa::Footprint& to) {
  to.first = from.first;
  to.last = from.last;
  to.run = from.run;
  to.partition = from.partition;
  to.partition_end = from.partition_end;
  to.dim_count = from.dim_count;
  std::copy_n(from.dims.begin(), from.dim_count, to.dims.begin());
}

}  // namespace

Dependences::Dependences(const isa::Program& program, QueueIndex first_unordered,
                         const Completions& completions)
    : program_(program),
      first_unordered_(first_unordered),
      completions_(completions),
      known_(kKnownOperands) {
  std::int64_t sbuf = program.machine().sbuf_partition_bytes;
  std::int64_t psum = program.machine().psum_partition_bytes;
  for (const isa::Tensor& t : program.tensors()) {  // beyond where over-capacity was allowed
    if (t.space == isa::Space::kSbuf) sbuf = std::max(sbuf, t.address + t.extent_bytes());
    if (t.space == isa::Space::kPsum) psum = std::max(psum, t.address + t.extent_bytes());
  }
  sbuf_ = {kSbufPitch, {}};
  sbuf_.buckets.resize(static_cast<std::size_t>(ceil_div(sbuf, kSbufPitch)));
  psum_ = {kPsumPitch, {}};
  psum_.buckets.resize(static_cast<std::size_t>(ceil_div(psum, kPsumPitch)));
}

Dependences::Arena Dependences::make_arena(std::int64_t bytes) const {
  const std::int64_t pitch = std::max(kMinTensorPitch, ceil_div(bytes, kMaxBuckets));
  return {pitch, std::vector<Bucket>(
                     static_cast<std::size_t>(std::max<std::int64_t>(1, ceil_div(bytes, pitch))))};
}

Dependences::Arena& Dependences::arena(const isa::TensorRef& ref) {
  if (ref.on_chip() && !program_.virtual_addresses()) {
    return ref.space == isa::Space::kSbuf ? sbuf_ : psum_;
  }
  const auto found = tensors_.find(ref.tensor);
  if (found != tensors_.end()) return found->second;
  const isa::Tensor& tensor = program_.tensor(ref);
  const std::int64_t start = ref.on_chip() ? tensor.address : 0;
  return tensors_.emplace(ref.tensor, make_arena(start + tensor.extent_bytes())).first->second;
}

Dependences::Strided* Dependences::keep(const isa::Footprint& bytes) {
  Strided& strided = strided_.take();
  copy_footprint(bytes, strided.bytes);
  strided.references = 0;
  return &strided;
}

// False if they may be others the next time.
bool Dependences::find_operands(const isa::Inst& inst, const isa::CoreState& state,
                                std::vector<Operand>& found) {
  found.clear();
  bool fixed = true;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    // On chip, another tensor at the same address may be what is written.
    if (!ref.on_chip() && !program_.tensor(ref).written) return;
    fixed &= ref.dynamic == nullptr;
    Operand& operand = found.emplace_back();
    isa::find_footprint(ref, program_, state, operand.bytes);
    operand.arena = &arena(ref);
    operand.range =
        isa::bucket_range(operand.bytes, operand.arena->pitch, operand.arena->buckets.size());
    operand.write = write;
  });
  // A write retires the records it covers, which the reads still need to see.
  std::stable_partition(found.begin(), found.end(), [](const Operand& o) { return !o.write; });
  return fixed;
}

const std::vector<Dependences::Operand>& Dependences::operands(const isa::Inst& inst,
                                                               const isa::CoreState& state) {
  if (known_edits_ != program_.edits()) {
    for (Known& known : known_) known.args = nullptr;
    known_edits_ = program_.edits();
  }
  const auto key = reinterpret_cast<std::uintptr_t>(inst.args.data()) / alignof(isa::Arg);
  Known& known = known_[(key * 0x9e3779b97f4a7c15U >> 32U) % kKnownOperands];
  if (known.args == inst.args.data() && known.op == inst.op) return known.operands;
  known.args = find_operands(inst, state, known.operands) ? inst.args.data() : nullptr;
  known.op = inst.op;
  return known.operands;
}

void Dependences::add_edge(const Entry& entry, const Operand& access, std::size_t first_edge,
                           std::vector<Edge>& edges) const {
  const Edge::Kind kind = !access.write ? Edge::Kind::kReadAfterWrite
                          : entry.write ? Edge::Kind::kWriteAfterWrite
                                        : Edge::Kind::kWriteAfterRead;
  for (Edge& e : edges) {
    if (e.queue != entry.queue || e.kind != kind) continue;
    if (entry.queue < first_unordered_) {
      e.number = std::max(e.number, entry.number);
    } else if (e.number != entry.number) {
      continue;
    }
    if (&e >= edges.data() + first_edge && comes_before(entry.order, e.order)) {
      e.order = entry.order;
    }
    return;
  }
  edges.push_back({entry.queue, entry.number, kind, entry.order});
}

// One of them has gaps.
bool Dependences::overlap_with_gaps(const Entry& entry, const isa::Footprint& bytes) {
  return may_overlap(entry.strided != nullptr ? entry.strided->bytes : entry.bounds(), bytes);
}

// A later access stands for an earlier one, within [first, last), that it must follow anyway.
inline bool Dependences::superseded(const Entry& entry, const Operand& access, std::int64_t first,
                                    std::int64_t last) const {
  const bool ordered =
      access.write || (!entry.write && entry.queue == queue_ && queue_ < first_unordered_);
  if (!ordered) return false;
  const isa::Footprint& bytes = access.bytes;
  if (!bytes.dense())
    return entry.strided != nullptr && covers(bytes, entry.strided->bytes, first, last);
  return bytes.partition <= entry.partition && bytes.partition_end >= entry.partition_end &&
         bytes.first <= std::max(first, entry.first) && bytes.last >= std::min(last, entry.last);
}

void Dependences::scan(const Operand& access, std::vector<Edge>& edges) {
  Arena& arena = *access.arena;
  const std::size_t count = arena.buckets.size();
  for (std::size_t b = access.range.from; b <= access.range.to; ++b) {
    Bucket& bucket = arena.buckets[b];
    const isa::BucketBytes bytes = isa::bucket_bytes(b, arena.pitch, count);
    const std::size_t first_edge = edges.size();
    for (std::vector<Entry>* list : {&bucket.entries, &bucket.unordered_reads}) {
      if (list == &bucket.unordered_reads && !access.write) break;
      const bool tidy = list->size() > kTidyBucket;
      Entry* entry = list->data();
      Entry* end = entry + list->size();
      while (entry != end) {
        bool stays = true;
        if (!overlaps(*entry, access.bytes)) {
          stays = !tidy || !settled(*entry);
        } else if (settled(*entry)) {
          stays = false;
        } else {
          if (wants_edge(*entry, access)) add_edge(*entry, access, first_edge, edges);
          stays = !superseded(*entry, access, bytes.first, bytes.last);
        }
        if (stays) {
          ++entry;
        } else {
          release(*entry);
          *entry = *--end;
        }
      }
      list->resize(static_cast<std::size_t>(end - list->data()));
    }
    // Edges are in the order of the accesses, in whatever order the lists have them.
    for (std::size_t i = first_edge + 1; i < edges.size(); ++i) {
      for (std::size_t k = i; k > first_edge && comes_before(edges[k].order, edges[k - 1].order);
           --k) {
        std::swap(edges[k], edges[k - 1]);
      }
    }
  }
}

// As many again may come before the next time: a reader pays for what it adds.
void Dependences::drop_finished(Bucket& bucket) {
  std::erase_if(bucket.unordered_reads, [&](const Entry& entry) {
    if (!settled(entry)) return false;
    release(entry);
    return true;
  });
  bucket.tidy_at = 2 * std::max(kTidyBucket, bucket.unordered_reads.size());
}

void Dependences::insert(const Operand& access) {
  const isa::Footprint& f = access.bytes;
  const isa::BucketRange range = access.range;
  Strided* const strided = f.dense() ? nullptr : keep(f);
  if (strided != nullptr) strided->references = static_cast<int>(range.to - range.from + 1);
  const Entry entry{f.first, f.last,      f.partition, f.partition_end, number_,
                    strided, inserted_++, queue_,      access.write};
  const bool apart = !access.write && queue_ >= first_unordered_;
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = access.arena->buckets[b];
    if (apart && bucket.unordered_reads.size() >= bucket.tidy_at) drop_finished(bucket);
    (apart ? bucket.unordered_reads : bucket.entries).push_back(entry);
  }
}

void Dependences::add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
                      std::uint64_t number, Fs horizon, const NeedsNoEdge& left_out,
                      std::vector<Edge>& edges) {
  queue_ = queue;
  number_ = number;
  horizon_ = horizon;
  left_out_ = &left_out;
  const std::vector<Operand>& accesses = operands(inst, state);
  for (const Operand& access : accesses) scan(access, edges);
  for (const Operand& access : accesses) insert(access);
}

}  // namespace nkisim::models
