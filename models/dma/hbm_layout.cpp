// Assigns addresses to tensors in HBM, each at the start of a page.
#include "models/dma/hbm_layout.hpp"

#include "isa/program/op_spec.hpp"

namespace nkisim::models {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

HbmLayout::HbmLayout(const isa::Program& program) {
  std::int64_t next = 0;
  for (const isa::Tensor& tensor : program.tensors()) {
    starts_.push_back(next);
    if (tensor.space != isa::Space::kHbm) continue;
    next += (tensor.extent_bytes() + kPage - 1) / kPage * kPage;
  }
}

std::uint64_t HbmLayout::address(const isa::Inst& inst, bool written, std::int64_t offset) const {
  if (starts_.empty()) return static_cast<std::uint64_t>(offset);
  std::int64_t start = 0;
  bool found = false;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool writes) {
    if (found || ref.space != isa::Space::kHbm || writes != written) return;
    if (&param == &isa::kIndexParam) return;  // of an address, not what is moved
    found = true;
    start = starts_.at(ref.tensor) + ref.offset;
  });
  return static_cast<std::uint64_t>(start + offset);
}

}  // namespace nkisim::models
