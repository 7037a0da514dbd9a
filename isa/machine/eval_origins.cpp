// Finds the instruction that a never-written (undefined) byte comes from, for error messages. It
// also marks rows that one DMA writes twice, and data received from another core, as undefined.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unordered_map>

#include "isa/machine/eval_walk.hpp"
#include "isa/machine/undefined.hpp"
#include "isa/program/check.hpp"

namespace nkisim::isa {

// The origin of the undefined byte `byte` (of the region) of an operand's row.
std::uint32_t EvalContext::origin_of(const TensorRef& ref, const Placement& place,
                                     std::int64_t byte, std::int64_t row) {
  const std::uint32_t known = place.bits->origin(place.bit(byte, row));
  if (known != 0) return known;
  const std::int64_t extent = program_.tensor(ref).extent_bytes();
  const std::int64_t within = place.bit(byte, row);  // rows of `extent` bytes
  return memory_.origins().root(
      {.kind = Origin::Kind::kNeverWritten,
       .tensor = ref.tensor,
       .byte = ref.on_chip() ? within % extent : within,
       .partition = ref.on_chip() ? ref.partition + static_cast<int>(row) : -1});
}

std::vector<std::int64_t> EvalContext::repeated_rows(const TensorRef& ref) {
  const Access a = access(ref);
  std::vector<std::int64_t> earlier(a.row_index.size(), -1);
  std::map<std::int64_t, std::int64_t> seen;  // index -> the first row that has it
  bool any = false;
  for (std::size_t r = 0; r < a.row_index.size(); ++r) {
    if (a.row_index[r] < 0) continue;
    const auto [at, fresh] = seen.try_emplace(a.row_index[r], static_cast<std::int64_t>(r));
    if (!fresh) earlier[r] = at->second;
    any |= !fresh;
  }
  if (!any) earlier.clear();
  return earlier;
}

namespace {

// Elements that the dimensions of a pattern span from `first` on. 0 if they may reach an element
// twice: a dimension's step lies within the span of the smaller ones.
std::int64_t span_of(const Pattern& pattern, std::size_t first) {
  std::vector<Dim> dims;
  for (std::size_t i = first; i < pattern.dims.size(); ++i) {
    const Dim& d = pattern.dims[i];
    if (d.num > 1) dims.push_back({std::abs(d.step), d.num});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.step < b.step; });
  std::int64_t last = 0;
  for (const Dim& d : dims) {
    if (d.step <= last) return 0;
    last += d.step * (d.num - 1);
  }
  return last + 1;
}

}  // namespace

// True if an operand may reach the same element twice. Ignores columns that indices in memory
// place.
bool EvalContext::may_repeat(const TensorRef& ref) {
  using Kind = DynamicOffset::Kind;
  if (find_dynamic(ref, Kind::kIndirect) != nullptr) return false;
  const DynamicOffset* rows = find_dynamic(ref, Kind::kVector);
  const std::int64_t span = span_of(*ref.pattern, rows == nullptr ? 0 : 1);
  if (rows == nullptr || span == 0) return span == 0;
  std::vector<std::int64_t> starts;
  for (const std::int64_t index : access(ref).row_index) {
    if (index >= 0) starts.push_back(index * std::abs(rows->stride));
  }
  std::sort(starts.begin(), starts.end());
  return std::adjacent_find(starts.begin(), starts.end(), [&](std::int64_t a, std::int64_t b) {
           return b - a < span;
         }) != starts.end();
}

bool EvalContext::comes_back(const TensorRef& ref) {
  if (!may_repeat(ref)) return false;
  std::vector<std::byte*> places = element_places(ref);
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

// Rows with equal or near indices, or a pattern that comes to an element more than once.
void EvalContext::undefine_repeated(const TensorRef& ref, const Tile<std::byte>& values) {
  if (unwritten_ == Unwritten::kAllow) return;
  if (!may_repeat(ref)) return;
  const auto size = static_cast<std::size_t>(size_bytes(ref.dtype));
  const std::vector<std::byte*> places = element_places(ref);
  const Placement place = memory_.place(ref);
  const std::int64_t columns = ref.columns();
  std::unordered_map<const std::byte*, std::size_t> first;  // place -> element
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] == nullptr) continue;
    const auto [at, fresh] = first.emplace(places[i], i);
    if (fresh || std::memcmp(values.data + i * size, values.data + at->second * size, size) == 0) {
      continue;
    }
    const std::int64_t byte = places[i] - place.region->data();
    repeated_.push_back({place.bit(byte, static_cast<std::int64_t>(i) / columns),
                         static_cast<std::int64_t>(size),
                         {.kind = Origin::Kind::kWrittenTwice,
                          .tensor = ref.tensor,
                          .inst = inst_,
                          .byte = byte - place.start + ref.offset}});
  }
}

std::vector<std::byte*> EvalContext::element_places(const TensorRef& ref) {
  std::vector<std::byte*> places;
  memory_.require_memory(ref.elements() * static_cast<std::int64_t>(sizeof(std::byte*)),
                         "an operand");
  places.reserve(static_cast<std::size_t>(ref.elements()));
  walk(ref, Touch::kSome, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      places.push_back(run.data == nullptr ? nullptr : run.data + i * run.step_bytes);
    }
  });
  return places;
}

namespace {

// True if two operands of one tensor certainly share no byte.
bool apart(const TensorRef& a, const TensorRef& b) {
  if (a.dynamic != nullptr || b.dynamic != nullptr) return false;
  const auto begin = [](const TensorRef& r) {
    return r.offset + r.pattern->first * size_bytes(r.dtype);
  };
  const auto end = [](const TensorRef& r) {
    return r.offset + (r.pattern->last + 1) * size_bytes(r.dtype);
  };
  if (begin(a) >= end(b) || begin(b) >= end(a)) return true;
  return a.on_chip() &&
         (a.partition >= b.partition + b.partitions || b.partition >= a.partition + a.partitions);
}

bool same_place(const TensorRef& a, const TensorRef& b) {
  return a.dynamic == nullptr && b.dynamic == nullptr && a.offset == b.offset &&
         a.partition == b.partition && a.pattern == b.pattern && a.dtype == b.dtype;
}

}  // namespace

void EvalContext::undefine_overlap(const TensorRef& dst, const TensorRef& src,
                                   const Tile<std::byte>& values,
                                   const std::vector<std::int64_t>& becomes) {
  if (dst.tensor != src.tensor || unwritten_ == Unwritten::kAllow || apart(dst, src)) return;
  if (becomes.empty() && same_place(dst, src)) return;
  const auto size = static_cast<std::size_t>(size_bytes(dst.dtype));
  const std::int64_t read = size_bytes(src.dtype), written = size_bytes(dst.dtype);
  const std::vector<std::byte*> to = element_places(dst), from = element_places(src);
  std::unordered_map<const std::byte*, std::size_t> source;  // place -> element
  for (std::size_t j = 0; j < from.size(); ++j) {
    if (from[j] != nullptr) source.emplace(from[j], j);
  }
  const Placement place = memory_.place(dst);
  const std::int64_t columns = dst.columns();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == nullptr || std::memcmp(values.data + i * size, to[i], size) == 0) continue;
    for (std::int64_t shift = 1 - read; shift < written; ++shift) {
      const auto hit = source.find(to[i] + shift);
      if (hit == source.end()) continue;
      const std::size_t j =
          becomes.empty() ? hit->second : static_cast<std::size_t>(becomes[hit->second]);
      if (j == i || to[j] == nullptr) continue;
      const std::int64_t byte = to[j] - place.region->data();
      repeated_.push_back({place.bit(byte, static_cast<std::int64_t>(j) / columns),
                           written,
                           {.kind = Origin::Kind::kReadAndWritten,
                            .tensor = dst.tensor,
                            .inst = inst_,
                            .byte = byte - place.start}});
    }
  }
}

void EvalContext::mark_repeated() {
  for (const Repeated& r : repeated_) {
    memory_.undefine(r.origin.tensor, r.bit, r.size, memory_.origins().root(r.origin));
  }
  repeated_.clear();
}

// Undefined bytes go along; unwritten ones leave as their sentinel.
Parcel EvalContext::pack(const TensorRef& ref) {
  Parcel parcel{.bytes = {}, .rows = ref.rows(), .dtype = ref.dtype};
  const std::int64_t size = size_bytes(ref.dtype);
  parcel.row_bytes = ref.columns() * size;
  parcel.bytes.resize(static_cast<std::size_t>(parcel.rows * parcel.row_bytes));
  try {
    std::byte* out = parcel.bytes.data();
    walk(ref, Touch::kRead, [&](const Run& run) {
      const std::int64_t dense = run.step_bytes == size ? run.count : 1;
      for (std::int64_t i = 0; i < run.count; i += dense, out += dense * size) {
        std::memcpy(out, run.data + i * run.step_bytes, static_cast<std::size_t>(dense * size));
      }
    });
    return parcel;
  } catch (const FoundUndefined&) {  // some of it: element by element
  }
  const Placement place = memory_.place(ref);
  std::size_t element = 0;
  walk(ref, Touch::kSome, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i, ++element) {
      std::byte* to = &parcel.bytes[element * static_cast<std::size_t>(size)];
      const std::byte* from = run.data + i * run.step_bytes;
      std::memcpy(to, from, static_cast<std::size_t>(size));
      if (unwritten_ == Unwritten::kAllow) continue;
      const std::int64_t byte = from - place.region->data();
      const std::int64_t bit = place.bit(byte, run.row);
      const std::int64_t hole = place.bits->find_undefined(bit, size);
      if (hole < 0) continue;
      parcel.undefined.resize(static_cast<std::size_t>(ref.elements()));
      parcel.undefined[element] = 1;
      if (memory_.origins().last(place.bits->origin(hole)) == nullptr) fill_sentinel(ref.dtype, to);
      if (parcel.origin != 0) continue;
      parcel.origin =
          memory_.origins().computed(*inst_, origin_of(ref, place, byte + hole - bit, run.row));
    }
  });
  return parcel;
}

}  // namespace nkisim::isa
