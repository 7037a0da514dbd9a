// Decodes the memory addresses of a device profile, and declares tensors around them.

#include "src/device_profile/profile_addresses.hpp"

#include <algorithm>
#include <cstdlib>

#include "src/trace/operand_text.hpp"

namespace nkisim {
namespace {

// Layout of on-chip memory in device addresses, as the profiles' operands show it.
constexpr std::uint64_t kPartitionStride = 0x40000;
constexpr std::uint64_t kPsumBase = 0x2000000;
constexpr std::uint64_t kChipEnd = 0x4000000;
constexpr std::uint64_t kDmaBase = 0x802000000000;
constexpr std::uint64_t kDmaEnd = 0x804000000000;
constexpr std::uint64_t kDmaCoreMask = 0x7ffffffff;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 36U;

DevicePlace chip_place(std::uint64_t address) {
  const bool psum = address >= kPsumBase;
  const std::uint64_t inside = address % kPsumBase;
  return {psum ? isa::Space::kPsum : isa::Space::kSbuf, static_cast<int>(inside / kPartitionStride),
          static_cast<std::int64_t>(inside % kPartitionStride)};
}

std::vector<isa::Dim> dims_of(const std::vector<std::int64_t>& steps,
                              const std::vector<std::int64_t>& counts, std::int64_t unit) {
  std::vector<isa::Dim> dims;
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (counts[i] != 1) dims.push_back({steps[i] / unit, counts[i]});
  }
  return dims;
}

bool sane(const std::vector<isa::Dim>& dims) {
  std::int64_t n = 1;
  for (const isa::Dim& d : dims) {
    if (d.num < 1 || d.num > kMostBytes / n || std::abs(d.step) > kMostBytes / d.num) return false;
    n *= d.num;
  }
  return dims.size() <= static_cast<std::size_t>(kMaxDims);
}

std::vector<isa::Dim> hbm_dims(const ProfileDmaSide& side) {
  std::vector<isa::Dim> dims = dims_of(side.steps, side.counts, 1);
  dims.push_back({1, std::max<std::int64_t>(1, side.element_bytes)});
  return dims;
}

std::int64_t region_of(const ProfileDmaSide& side) {
  return side.address ? -1 : std::max<std::int64_t>(0, side.table);
}
std::int64_t start_of(const ProfileDmaSide& side) {
  return side.address ? static_cast<std::int64_t>(*side.address) : side.offset;
}

}  // namespace

DevicePlace engine_place(std::uint64_t address) {
  return address < kChipEnd ? chip_place(address) : DevicePlace{};
}

DevicePlace dma_place(const ProfileDmaSide& side) {
  if (!side.address || *side.address < kDmaBase || *side.address >= kDmaEnd) return {};
  const std::uint64_t local = *side.address & kDmaCoreMask;
  return local < kChipEnd ? chip_place(local) : DevicePlace{};
}

void AddressMap::note(Region region, std::int64_t start, std::int64_t low, std::int64_t high) {
  if (start + low < 0 || high - low > kMostBytes) return;
  ranges_[region].push_back({start + low, start + high, 0});
}

void AddressMap::note(const ProfileDmaSide& side) {
  if (!side.given || dma_place(side).space != isa::Space::kHbm) return;
  const auto dims = hbm_dims(side);
  if (!sane(dims)) return;
  const isa::Pattern p = isa::make_pattern(dims);
  note(region_of(side), start_of(side), p.first, p.last + 1);
}

void AddressMap::note(const ProfileTensor& tensor) {
  if (engine_place(tensor.address).space != isa::Space::kHbm) return;
  const auto dims = dims_of(tensor.steps, tensor.counts, 1);
  if (!sane(dims)) return;
  const isa::Pattern p = isa::make_pattern(dims);
  const std::int64_t size = isa::size_bytes(tensor.dtype.value_or(isa::Dtype::kFloat32));
  note(-1, static_cast<std::int64_t>(tensor.address), p.first * size, (p.last + 1) * size);
}

void AddressMap::declare() {
  for (auto& [region, ranges] : ranges_) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.first < b.first; });
    std::vector<Range> merged;
    for (const Range& r : ranges) {
      if (!merged.empty() && r.first <= merged.back().last) {
        merged.back().last = std::max(merged.back().last, r.last);
      } else {
        merged.push_back(r);
      }
    }
    for (std::size_t i = 0; i < merged.size(); ++i) {
      isa::Tensor t;
      t.name = region < 0 ? "hbm" + std::to_string(i)
                          : "table" + std::to_string(region) + "_" + std::to_string(i);
      t.dtype = isa::Dtype::kUint8;
      t.shape = {merged[i].last - merged[i].first};
      t.address = region < 0 ? merged[i].first : 0;
      merged[i].tensor = program_.add_tensor(std::move(t));
    }
    ranges = std::move(merged);
  }
}

const AddressMap::Range* AddressMap::find(Region region, std::int64_t start) const {
  const auto it = ranges_.find(region);
  if (it == ranges_.end()) return nullptr;
  for (const Range& r : it->second) {
    if (start >= r.first && start < r.last) return &r;
  }
  return nullptr;
}

const isa::TensorRef* AddressMap::on_chip(const DevicePlace& place, isa::Dtype dtype,
                                          int partitions, std::vector<isa::Dim> dims, int core) {
  if (!sane(dims) || partitions < 1 || place.partition + partitions > isa::kPartitions) {
    return nullptr;
  }
  const std::uint32_t id = raw_tensor(program_, place.space, core);
  const isa::Pattern* pattern = program_.intern(std::move(dims));
  const std::int64_t size = isa::size_bytes(dtype);
  const std::int64_t first = place.offset + pattern->first * size;
  const std::int64_t last = place.offset + (pattern->last + 1) * size;
  if (first < 0 || last > program_.tensor(id).extent_bytes()) return nullptr;
  isa::TensorRef ref;
  ref.pattern = pattern;
  ref.offset = place.offset;
  ref.tensor = id;
  ref.partition = static_cast<std::uint16_t>(place.partition);
  ref.partitions = static_cast<std::uint16_t>(partitions);
  ref.space = place.space;
  ref.dtype = dtype;
  return program_.add_ref(ref);
}

const isa::TensorRef* AddressMap::in_hbm(Region region, std::int64_t start, isa::Dtype dtype,
                                         std::vector<isa::Dim> dims) {
  const Range* range = find(region, start);
  if (range == nullptr || !sane(dims)) return nullptr;
  isa::TensorRef ref;
  ref.pattern = program_.intern(std::move(dims));
  ref.offset = start - range->first;
  ref.tensor = range->tensor;
  ref.dtype = dtype;
  return program_.add_ref(ref);
}

const isa::TensorRef* AddressMap::make(const ProfileTensor& tensor, isa::Dtype dtype,
                                       int partitions, int core) {
  const DevicePlace place = engine_place(tensor.address);
  auto dims = dims_of(tensor.steps, tensor.counts, 1);
  if (place.space == isa::Space::kHbm) {
    return in_hbm(-1, static_cast<std::int64_t>(tensor.address), dtype, std::move(dims));
  }
  return on_chip(place, dtype, partitions, std::move(dims), core);
}

// On chip one dimension of the pattern walks over partitions; the others stay inside them.
const isa::TensorRef* AddressMap::make(const ProfileDmaSide& side, int core) {
  if (!side.given) return nullptr;
  const DevicePlace place = dma_place(side);
  if (place.space == isa::Space::kHbm) {
    return in_hbm(region_of(side), start_of(side), isa::Dtype::kUint8, hbm_dims(side));
  }
  constexpr auto kStride = static_cast<std::int64_t>(kPartitionStride);
  int partitions = 1;
  std::vector<std::int64_t> steps, counts;
  for (std::size_t d = 0; d < side.steps.size(); ++d) {
    if (side.counts[d] > 1 && side.steps[d] == kStride && partitions == 1 &&
        side.counts[d] <= isa::kPartitions) {
      partitions = static_cast<int>(side.counts[d]);
    } else {
      steps.push_back(side.steps[d]);
      counts.push_back(side.counts[d]);
    }
  }
  auto dims = dims_of(steps, counts, 1);
  dims.push_back({1, std::max<std::int64_t>(1, side.element_bytes)});
  return on_chip(place, isa::Dtype::kUint8, partitions, std::move(dims), core);
}

}  // namespace nkisim
