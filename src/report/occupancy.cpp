// Computes from a run's events how many bytes of SBUF and PSUM are in use over time.

#include "src/report/occupancy.hpp"

#include <algorithm>

namespace nkisim {

using models::Fs;

void Occupancy::Span::cover(Fs start, Fs end) {
  first = std::min(first, start);
  last = std::max(last, end);
}

void Occupancy::add(const isa::Inst& inst, Fs start, Fs end) {
  if (inst.args.empty()) return;
  Use& use = *uses_.find_or_add(inst.args.data()).first;
  if (use.inst == nullptr) use.inst = &inst;
  if (use.inst->op == inst.op) {
    use.span.cover(start, end);
  } else {
    cover_tensors(tensors_, inst, {start, end});
  }
}

void Occupancy::cover_tensors(std::vector<Span>& tensors, const isa::Inst& inst, Span span) const {
  if (inst.args.size() != isa::spec(inst).params.size()) return;  // not a program's
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const auto&, bool) {
    if (ref.tensor < tensors.size()) tensors[ref.tensor].cover(span.first, span.last);
  });
}

std::vector<Occupancy::Span> Occupancy::lifetimes() const {
  std::vector<Span> tensors = tensors_;
  uses_.for_each([&](const Use& use) { cover_tensors(tensors, *use.inst, use.span); });
  return tensors;
}

std::vector<std::pair<Fs, double>> Occupancy::changes(isa::Space space, int core) const {
  const isa::Machine& m = program_.machine();
  const auto row_bytes = static_cast<double>(space == isa::Space::kPsum ? m.psum_partition_bytes
                                                                        : m.sbuf_partition_bytes);
  std::vector<std::pair<Fs, double>> list;
  const std::vector<Span> spans = lifetimes();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const isa::Tensor& t = program_.tensors()[i];
    if (t.space != space || t.core != core || spans[i].last < 0 || t.shape.empty()) continue;
    const double share = static_cast<double>(t.extent_bytes()) * static_cast<double>(t.shape[0]) /
                         (row_bytes * isa::kPartitions);
    list.emplace_back(spans[i].first, share);
    list.emplace_back(spans[i].last, -share);
  }
  return list;
}

}  // namespace nkisim
