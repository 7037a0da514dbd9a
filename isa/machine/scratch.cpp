// Gives tiles their memory.
#include "isa/machine/scratch.hpp"

#include <algorithm>

namespace nkisim::isa {

void* Scratch::take(std::size_t bytes) {
  constexpr std::size_t kAlign = 64, kBlock = std::size_t{1} << 20U;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max(bytes, kBlock);
    if (size > kBlock) bound_.require_memory(static_cast<std::int64_t>(size), "an operand");
    // make_unique would zero the block; tiles are written before they are read.
    blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size + kAlign]), size});
    used_ = 0;
  }
  std::byte* base = blocks_[block_].data.get();
  const auto misfit = reinterpret_cast<std::uintptr_t>(base) % kAlign;
  std::byte* p = base + (misfit == 0 ? 0 : kAlign - misfit) + used_;
  used_ += bytes;
  return p;
}

}  // namespace nkisim::isa
