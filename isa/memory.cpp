#include "isa/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace nkisim::isa {

void Region::Free::operator()(void* p) const { std::free(p); }

Region::Region(std::int64_t bytes) : size_(bytes) {
  // calloc maps zero pages lazily, so a large SBUF costs nothing until it is touched.
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  data_.reset(static_cast<std::byte*>(std::calloc(n, 1)));
  written_.reset(static_cast<std::uint64_t*>(std::calloc(n / 64 + 1, 8)));
  if (data_ == nullptr || written_ == nullptr) throw std::bad_alloc();
}

namespace {

// Sets or clears bits [first, first+count).
void set_bits(std::uint64_t* words, std::int64_t first, std::int64_t count, bool on) {
  const auto begin = static_cast<std::uint64_t>(first);
  const auto end = static_cast<std::uint64_t>(first + count);
  if (begin >= end) return;
  const std::uint64_t head = begin / 64, tail = (end - 1) / 64;
  const std::uint64_t head_mask = ~std::uint64_t{0} << (begin % 64);
  const std::uint64_t tail_mask = ~std::uint64_t{0} >> (63 - (end - 1) % 64);
  const auto apply = [&](std::uint64_t& word, std::uint64_t mask) {
    word = on ? word | mask : word & ~mask;
  };
  if (head == tail) {
    apply(words[head], head_mask & tail_mask);
    return;
  }
  apply(words[head], head_mask);
  std::memset(words + head + 1, on ? 0xff : 0, (tail - head - 1) * 8);
  apply(words[tail], tail_mask);
}

// First bit in [first, first+count) that is `on`, or -1.
std::int64_t find_bit(const std::uint64_t* words, std::int64_t first, std::int64_t count, bool on) {
  const auto end = static_cast<std::uint64_t>(first + count);
  for (auto at = static_cast<std::uint64_t>(first); at < end;) {
    const std::uint64_t word = on ? words[at / 64] : ~words[at / 64];
    const std::uint64_t found = word >> (at % 64);
    if (found != 0) {
      const std::uint64_t hit = at + static_cast<std::uint64_t>(__builtin_ctzll(found));
      return hit < end ? static_cast<std::int64_t>(hit) : -1;
    }
    at = (at / 64 + 1) * 64;
  }
  return -1;
}

}  // namespace

void Region::mark_written(std::int64_t first, std::int64_t count) {
  set_bits(written_.get(), first, count, true);
}

std::int64_t Region::find_unwritten(std::int64_t first, std::int64_t count) const {
  return find_bit(written_.get(), first, count, false);
}

void Region::mark_foreign(std::int64_t first, std::int64_t count, bool foreign) {
  if (foreign_ == nullptr) {
    if (!foreign) return;
    foreign_.reset(
        static_cast<std::uint64_t*>(std::calloc(static_cast<std::size_t>(size_) / 64 + 1, 8)));
    if (foreign_ == nullptr) throw std::bad_alloc();
  }
  set_bits(foreign_.get(), first, count, foreign);
}

std::int64_t Region::find_foreign(std::int64_t first, std::int64_t count) const {
  return foreign_ == nullptr ? -1 : find_bit(foreign_.get(), first, count, true);
}

Memory::Memory(const Program& program) : program_(program) {
  const Machine& m = program.machine();
  tensors_.resize(program.tensors().size());
  if (program.virtual_addresses()) return;
  std::int64_t sbuf = m.sbuf_partition_bytes, psum = m.psum_partition_bytes;
  for (const Tensor& t : program.tensors()) {  // larger only where over-capacity was allowed
    if (t.space == Space::kSbuf) sbuf = std::max(sbuf, t.address + t.extent_bytes());
    if (t.space == Space::kPsum) psum = std::max(psum, t.address + t.extent_bytes());
  }
  for (int core = 0; core < program.cores(); ++core) {
    sbuf_.push_back(std::make_unique<Region>(sbuf * kPartitions));
    psum_.push_back(std::make_unique<Region>(psum * kPartitions));
  }
}

Region& Memory::tensor_region(std::uint32_t tensor) {
  if (tensor >= tensors_.size()) tensors_.resize(program_.tensors().size());
  std::unique_ptr<Region>& region = tensors_[tensor];
  if (region == nullptr) {
    const Tensor& t = program_.tensor(tensor);
    region = std::make_unique<Region>(t.elements() * size_bytes(t.dtype));
  }
  return *region;
}

Placement Memory::place(const TensorRef& ref) {
  if (ref.space == Space::kHbm) return {&tensor_region(ref.tensor), ref.offset, 0};
  const Tensor& t = program_.tensor(ref);
  if (program_.virtual_addresses()) {
    const std::int64_t pitch = t.extent_bytes();
    return {&tensor_region(ref.tensor), (ref.partition - t.partition) * pitch + ref.offset, pitch};
  }
  Region& region = *(ref.space == Space::kSbuf ? sbuf_ : psum_).at(t.core);
  const std::int64_t pitch = region.size() / kPartitions;
  return {&region, ref.partition * pitch + t.address + ref.offset, pitch};
}

Region& Memory::hbm(std::uint32_t tensor) { return tensor_region(tensor); }

void Memory::load(std::uint32_t tensor, std::span<const std::byte> bytes) {
  Region& region = tensor_region(tensor);
  const Tensor& t = program_.tensor(tensor);
  if (static_cast<std::int64_t>(bytes.size()) != region.size() || t.space != Space::kHbm) {
    fail("data for tensor " + t.name, std::to_string(bytes.size()) + " bytes",
         std::to_string(region.size()) + " bytes in HBM");
  }
  std::memcpy(region.data(), bytes.data(), bytes.size());
  region.mark_written(0, region.size());
}

std::vector<std::byte> Memory::read(std::uint32_t tensor) {
  const Tensor& t = program_.tensor(tensor);
  std::vector<std::byte> out(static_cast<std::size_t>(t.elements() * size_bytes(t.dtype)));
  read(tensor, out);
  return out;
}

void Memory::release(std::uint32_t tensor) {
  if (tensor < tensors_.size()) tensors_[tensor].reset();
}

void Memory::read(std::uint32_t tensor, std::span<std::byte> out) {
  const Tensor& t = program_.tensor(tensor);
  TensorRef ref{.tensor = tensor, .partition = t.partition, .space = t.space, .dtype = t.dtype};
  const Placement p = place(ref);
  const std::int64_t rows = t.space == Space::kHbm ? 1 : t.shape[0];
  const std::int64_t bytes = t.extent_bytes();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(out.data() + r * bytes, p.region->data() + p.start + r * p.pitch,
                static_cast<std::size_t>(bytes));
  }
}

}  // namespace nkisim::isa
