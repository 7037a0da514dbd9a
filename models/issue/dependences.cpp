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

void Dependences::add_edge(const Entry& entry, const Operand& access, const Look& look,
                           std::vector<Edge>& edges) {
  const Edge::Kind kind = !access.write ? Edge::Kind::kReadAfterWrite
                          : entry.write ? Edge::Kind::kWriteAfterWrite
                                        : Edge::Kind::kWriteAfterRead;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    Edge& e = edges[i];
    const bool in_order = entry.queue < first_unordered_;
    if (e.queue != entry.queue || e.kind != kind || !(in_order || e.number == entry.number)) {
      continue;
    }
    if (in_order) e.number = std::max(e.number, entry.number);
    if (i >= look.first_edge) {
      std::uint32_t& order = edge_orders_[i - look.first_edge];
      if (static_cast<std::int32_t>(entry.order - order) < 0) order = entry.order;
    }
    return;
  }
  edges.push_back({entry.queue, entry.number, kind});
  edge_orders_.push_back(entry.order);
}

bool Dependences::overlaps(const Entry& entry, const isa::Footprint& bytes) {
  if (entry.apart(bytes)) return false;
  if (entry.strided != nullptr) return may_overlap(entry.strided->bytes, bytes);
  return bytes.dense() || may_overlap(entry.bounds(), bytes);
}

// A later access stands for an earlier one, within [first, last), that it must follow anyway.
bool Dependences::superseded(const Entry& entry, const Operand& access, std::int64_t first,
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
    const auto [first, last] = isa::bucket_bytes(b, arena.pitch, count);
    const Look look{first, last, edges.size()};
    edge_orders_.clear();
    const auto scan_any = [&](std::vector<Entry>& entries) {
      if (!entries.empty()) scan(entries, access, look, edges);
    };
    scan_any(bucket.writes);
    if (access.write || queue_ < first_unordered_) scan_any(bucket.ordered_reads);
    if (!access.write) continue;
    scan_any(bucket.other_reads);
    if (edge_orders_.size() > 1) sort_by_insertion(look.first_edge, edges);
  }
}

void Dependences::scan(std::vector<Entry>& entries, const Operand& access, const Look& look,
                       std::vector<Edge>& edges) {
  const bool tidy = entries.size() > kTidyBucket;
  Entry* kept = entries.data();
  for (Entry& entry : entries) {
    bool stays = true;
    if (!overlaps(entry, access.bytes)) {
      stays = !tidy || !settled(entry);
    } else if (settled(entry)) {
      stays = false;
    } else {
      if (access.write || entry.write) add_edge(entry, access, look, edges);
      stays = !superseded(entry, access, look.first, look.last);
    }
    if (!stays) {
      release(entry);
      continue;
    }
    if (kept != &entry) *kept = entry;
    ++kept;
  }
  entries.erase(entries.begin() + (kept - entries.data()), entries.end());
}

// The edges of a bucket, by their first entries.
void Dependences::sort_by_insertion(std::size_t first_edge, std::vector<Edge>& edges) {
  for (std::size_t i = 1; i < edge_orders_.size(); ++i) {
    for (std::size_t k = i;
         k > 0 && static_cast<std::int32_t>(edge_orders_[k] - edge_orders_[k - 1]) < 0; --k) {
      std::swap(edge_orders_[k], edge_orders_[k - 1]);
      std::swap(edges[first_edge + k], edges[first_edge + k - 1]);
    }
  }
}

// As many again may come before the next time: a reader pays for what it adds.
void Dependences::drop_finished(Bucket& bucket) {
  std::erase_if(bucket.other_reads, [&](const Entry& entry) {
    if (!settled(entry)) return false;
    release(entry);
    return true;
  });
  bucket.tidy_at = 2 * std::max(kTidyBucket, bucket.other_reads.size());
}

void Dependences::insert(const Operand& access) {
  const isa::Footprint& f = access.bytes;
  const isa::BucketRange range = access.range;
  Strided* const strided = f.dense() ? nullptr : keep(f);
  if (strided != nullptr) strided->references = static_cast<int>(range.to - range.from + 1);
  const Entry entry{f.first, f.last,      f.partition, f.partition_end, number_,
                    strided, inserted_++, queue_,      access.write};
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = access.arena->buckets[b];
    if (access.write) {
      bucket.writes.push_back(entry);
    } else if (queue_ < first_unordered_) {
      bucket.ordered_reads.push_back(entry);
    } else {
      if (bucket.other_reads.size() >= bucket.tidy_at) drop_finished(bucket);
      bucket.other_reads.push_back(entry);
    }
  }
}

void Dependences::add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
                      std::uint64_t number, Fs horizon, std::vector<Edge>& edges) {
  queue_ = queue;
  number_ = number;
  horizon_ = horizon;
  const std::vector<Operand>& accesses = operands(inst, state);
  // Reads before writes: a write retires the records it covers, which the reads still need to see.
  for (const bool writes : {false, true}) {
    for (const Operand& access : accesses) {
      if (access.write == writes) scan(access, edges);
    }
  }
  for (const Operand& access : accesses) insert(access);
}

}  // namespace nkisim::models
