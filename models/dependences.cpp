#include "models/dependences.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

constexpr std::int64_t kSbufPitch = 2048;
constexpr std::int64_t kPsumPitch = 512;
constexpr std::int64_t kMinTensorPitch = 4096;
constexpr std::int64_t kMaxBuckets = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Dependences::Dependences(const isa::Program& program, int core, QueueIndex first_unordered,
                         Settled settled)
    : program_(program),
      core_(core),
      first_unordered_(first_unordered),
      settled_(std::move(settled)) {
  const isa::Machine& machine = program.machine();
  sbuf_ = {kSbufPitch, {}};
  sbuf_.buckets.resize(
      static_cast<std::size_t>(ceil_div(machine.sbuf_partition_bytes, kSbufPitch)));
  psum_ = {kPsumPitch, {}};
  psum_.buckets.resize(
      static_cast<std::size_t>(ceil_div(machine.psum_partition_bytes, kPsumPitch)));
  find_written();
}

void Dependences::find_written() {
  written_.assign(program_.tensors().size(), false);
  for (const isa::Inst& inst : program_.insts()) {
    if (inst.core != core_) continue;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (write) written_[ref.tensor] = true;
    });
  }
}

Dependences::Arena Dependences::make_arena(std::int64_t bytes) const {
  const std::int64_t pitch = std::max(kMinTensorPitch, ceil_div(bytes, kMaxBuckets));
  return {pitch, std::vector<std::vector<Record*>>(
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

Dependences::Record* Dependences::allocate() {
  if (free_.empty()) return &records_.emplace_back();
  Record* r = free_.back();
  free_.pop_back();
  return r;
}

void Dependences::release(Record* record) {
  if (--record->references == 0) free_.push_back(record);
}

void Dependences::collect(const isa::Inst& inst) {
  accesses_.clear();
  const auto params = isa::spec(inst).params;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& p, bool write) {
    if (!written_[ref.tensor]) return;
    const auto index =
        &p == &isa::kIndexParam ? std::int16_t{-1} : static_cast<std::int16_t>(&p - params.data());
    accesses_.push_back({&ref, index, write});
  });
}

void Dependences::add_edge(const Record& record, const Access& access,
                           std::vector<Edge>& edges) const {
  const Edge::Kind kind = !access.write  ? Edge::Kind::kReadAfterWrite
                          : record.write ? Edge::Kind::kWriteAfterWrite
                                         : Edge::Kind::kWriteAfterRead;
  for (Edge& e : edges) {
    if (e.queue != record.queue || e.param != access.param || e.kind != kind) continue;
    if (record.queue < first_unordered_) {
      e.number = std::max(e.number, record.number);
      return;
    }
    if (e.number == record.number) return;
  }
  edges.push_back({record.queue, record.number, access.param, kind});
}

void Dependences::scan(Arena& arena, const Access& access, const Footprint& bytes, QueueIndex queue,
                       std::uint64_t number, std::vector<Edge>& edges) {
  const auto last_bucket = static_cast<std::int64_t>(arena.buckets.size()) - 1;
  const std::int64_t from = std::clamp<std::int64_t>(bytes.first / arena.pitch, 0, last_bucket);
  const std::int64_t to = std::clamp<std::int64_t>((bytes.last - 1) / arena.pitch, 0, last_bucket);
  ++visit_;
  for (std::int64_t b = from; b <= to; ++b) {
    auto& bucket = arena.buckets[static_cast<std::size_t>(b)];
    std::size_t kept = 0;
    for (Record* r : bucket) {
      const bool self = r->queue == queue && r->number == number;
      if (!self && settled_(r->queue, r->number)) {
        release(r);
        continue;
      }
      if (r->visited != visit_ && !self && (access.write || r->write) &&
          may_overlap(r->bytes, bytes)) {
        add_edge(*r, access, edges);
      }
      r->visited = visit_;
      // A later access stands for an earlier one that it must follow anyway.
      const bool ordered =
          access.write || (!r->write && r->queue == queue && queue < first_unordered_);
      if (!self && ordered && covers(bytes, r->bytes, b * arena.pitch, (b + 1) * arena.pitch)) {
        release(r);
        continue;
      }
      bucket[kept++] = r;
    }
    bucket.resize(kept);
  }
}

void Dependences::insert(Arena& arena, const Access& access, const Footprint& bytes,
                         QueueIndex queue, std::uint64_t number) {
  const auto last_bucket = static_cast<std::int64_t>(arena.buckets.size()) - 1;
  const std::int64_t from = std::clamp<std::int64_t>(bytes.first / arena.pitch, 0, last_bucket);
  const std::int64_t to = std::clamp<std::int64_t>((bytes.last - 1) / arena.pitch, 0, last_bucket);
  Record* r = allocate();
  *r = {.bytes = bytes, .number = number, .queue = queue, .write = access.write};
  r->references = static_cast<int>(to - from + 1);
  for (std::int64_t b = from; b <= to; ++b) {
    arena.buckets[static_cast<std::size_t>(b)].push_back(r);
  }
}

void Dependences::add(const isa::Inst& inst, const isa::CoreState& state, QueueIndex queue,
                      std::uint64_t number, std::vector<Edge>& edges) {
  collect(inst);
  footprints_.clear();
  for (const Access& access : accesses_) {
    footprints_.push_back(footprint(*access.ref, program_, state));
  }
  // Reads before writes: a write retires the records it covers, which the reads still need to see.
  for (const bool writes : {false, true}) {
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      if (accesses_[i].write != writes) continue;
      scan(arena(*accesses_[i].ref), accesses_[i], footprints_[i], queue, number, edges);
    }
  }
  for (std::size_t i = 0; i < accesses_.size(); ++i) {
    insert(arena(*accesses_[i].ref), accesses_[i], footprints_[i], queue, number);
  }
}

}  // namespace nkisim::models
