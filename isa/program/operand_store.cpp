// Implements operand_store.hpp: keeps what instructions point to, equal things once.

#include "isa/program/operand_store.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

namespace nkisim::isa {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 20U;
constexpr std::size_t kMostKept = std::size_t{1} << 18U;  // argument lists to compare with
constexpr std::size_t kKeptAdded = 256, kKeptRefs = 2048;

std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15U;
  return h ^ h >> 32U;
}

std::uint64_t hash_args(std::span<const Arg> args) {
  std::uint64_t h = args.size();
  for (const Arg& a : args) {
    if (!a.present()) continue;
    h = mix(h, static_cast<std::uint64_t>(a.integer) + static_cast<std::uint64_t>(a.kind));
  }
  return h;
}

// Equal pointers suffice: an argument's target is kept once or compared by its address.
bool same_args(std::span<const Arg> a, std::span<const Arg> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Arg& x, const Arg& y) {
    return x.kind == y.kind && (x.integer == y.integer || !x.present());
  });
}

std::uint64_t hash_dims(const std::vector<Dim>& dims) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const Dim& d : dims) {
    h = (h ^ static_cast<std::uint64_t>(d.step)) * 0x100000001b3ULL;
    h = (h ^ static_cast<std::uint64_t>(d.num)) * 0x100000001b3ULL;
  }
  return h;
}

}  // namespace

OperandStore::OperandStore() : arena_(kArenaBytes) {}

const Pattern* OperandStore::intern(const std::vector<Dim>& dims) {
  auto& bucket = patterns_[hash_dims(dims)];
  for (const Pattern* p : bucket) {
    if (p->dims == dims) return p;
  }
  pattern_store_.push_back(make_pattern(dims));
  bucket.push_back(&pattern_store_.back());
  return bucket.back();
}

const TensorRef* OperandStore::add_ref(const TensorRef& ref) {
  std::uint64_t h = mix(ref.tensor, static_cast<std::uint64_t>(ref.offset));
  h = mix(h, reinterpret_cast<std::uintptr_t>(ref.pattern));
  h = mix(h, std::uint64_t{ref.partition} << 16U | ref.partitions);
  recent_.refs.resize(kKeptRefs);
  const TensorRef*& kept = recent_.refs[h % kKeptRefs];
  if (kept == nullptr || *kept != ref) {
    kept = new (arena_.allocate(sizeof(TensorRef), alignof(TensorRef))) TensorRef(ref);
  }
  return kept;
}

const DynamicOffset* OperandStore::add_dynamic(const DynamicOffset& dynamic) {
  return new (arena_.allocate(sizeof(DynamicOffset), alignof(DynamicOffset)))
      DynamicOffset(dynamic);
}

const RefList* OperandStore::add_refs(RefList refs) {
  return &ref_lists_.emplace_back(std::move(refs));
}
const IntList* OperandStore::add_list(IntList list) {
  std::uint64_t h = list.size();
  for (const std::int64_t i : list) h = mix(h, static_cast<std::uint64_t>(i));
  recent_.lists.resize(kKeptAdded);
  const IntList*& kept = recent_.lists[h % kKeptAdded];
  if (kept == nullptr || *kept != list) kept = &int_lists_.emplace_back(std::move(list));
  return kept;
}
const std::string* OperandStore::add_text(std::string_view text) {
  recent_.texts.resize(kKeptAdded);
  const std::string*& kept = recent_.texts[std::hash<std::string_view>()(text) % kKeptAdded];
  if (kept == nullptr || *kept != text) kept = &texts_.emplace_back(text);
  return kept;
}
const Sync* OperandStore::add_sync(Sync sync) { return &syncs_.emplace_back(std::move(sync)); }
const DmaPlan* OperandStore::add_plan(DmaPlan plan) {
  return &plans_.emplace_back(std::move(plan));
}

// A copy of the arguments; the same one for equal arguments that come soon after each other.
std::span<const Arg> OperandStore::keep(std::span<const Arg> args, std::size_t instructions) {
  if (instructions >= kept_.size() && kept_.size() < kMostKept) {
    const auto old = std::exchange(kept_, {});
    kept_.resize(std::max<std::size_t>(64, 4 * old.size()));
    for (const auto& kept : old) {
      if (!kept.empty()) kept_[hash_args(kept) % kept_.size()] = kept;
    }
  }
  std::span<const Arg>& kept = kept_[hash_args(args) % kept_.size()];
  if (!same_args(kept, args) || args.empty()) {
    auto* copy = static_cast<Arg*>(arena_.allocate(args.size() * sizeof(Arg), alignof(Arg)));
    std::uninitialized_copy(args.begin(), args.end(), copy);
    kept = {copy, args.size()};
  }
  return kept;
}

}  // namespace nkisim::isa
