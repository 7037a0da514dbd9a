// Finds DMA loads that one source line repeats with the same data, and drops all but the first.
#include "compiler/passes/repeated_loads.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/analysis/redirect.hpp"
#include "compiler/analysis/sbuf_budget.hpp"

namespace nkisim::compiler {
namespace {

using isa::TensorRef;

// A tile that is read and holds what the same statement loaded before.
struct RepeatedLoad {
  std::uint32_t earlier = 0, later = 0;
};

class Repeats {
 public:
  Repeats(const isa::Program& program, const std::vector<bool>& placed, const isa::Uses& uses,
          const Values& values)
      : program_(program), placed_(placed), uses_(uses), values_(values) {}

  // Finds them by statement and content, in the order of the program.
  [[nodiscard]] std::vector<RepeatedLoad> find() const {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>>
        equal;
    for (std::uint32_t t = 0; t < program_.tensors().size(); ++t) {
      if (!loaded(t)) continue;
      const isa::SourceLoc& loc = writer(t).loc;
      equal[{loc.kernel_file, loc.kernel_line, values_.last(t).number}].push_back(t);
    }
    std::vector<RepeatedLoad> found;
    for (auto& [key, tiles] : equal) {
      std::sort(tiles.begin(), tiles.end(),
                [this](auto a, auto b) { return uses_.first(a) < uses_.first(b); });
      for (std::size_t k = 1; k < tiles.size(); ++k) found.push_back({tiles[k - 1], tiles[k]});
    }
    return found;
  }

  // Counts the most bytes of a partition that the repeats keep alive between two uses, and the most
  // that all tiles then fill; of all cores.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> kept(
      const std::vector<RepeatedLoad>& all) const {
    const std::size_t length = std::max<std::size_t>(program_.insts().size(), 1);
    const auto cores = static_cast<std::size_t>(program_.cores());
    std::vector<RangeMax> kept(cores, RangeMax(length)), filled(cores, RangeMax(length));
    for (std::uint32_t t = 0; t < program_.tensors().size(); ++t) {
      const isa::Tensor& tensor = program_.tensors()[t];
      if (tensor.space != isa::Space::kSbuf || !uses_.any(t)) continue;
      filled[tensor.core].add(uses_.first(t), uses_.last(t) + std::size_t{1},
                              tensor.extent_bytes());
    }
    for (const RepeatedLoad& r : all) {
      const isa::Tensor& tensor = program_.tensors()[r.later];
      const std::size_t from = uses_.last(r.earlier) + std::size_t{1}, to = uses_.first(r.later);
      if (from >= to) continue;
      kept[tensor.core].add(from, to, tensor.extent_bytes());
      filled[tensor.core].add(from, to, tensor.extent_bytes());
    }
    std::int64_t most_kept = 0, most_filled = 0;
    for (std::size_t core = 0; core < cores; ++core) {
      most_kept = std::max(most_kept, kept[core].max(0, length));
      most_filled = std::max(most_filled, filled[core].max(0, length));
    }
    return {most_kept, most_filled};
  }

  // A DMA of one partition: its descriptors are written before the kernel starts.
  [[nodiscard]] bool moves_a_row() const {
    return std::any_of(
        program_.insts().begin(), program_.insts().end(), [this](const isa::Inst& inst) {
          bool row = false, hbm = false;
          if (inst.op != isa::Op::k_dma_copy) return false;
          isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param&, bool) {
            row = row || (ref.space == isa::Space::kSbuf && ref.partitions == 1);
            hbm = hbm || (!ref.on_chip() && given(ref.tensor));
          });
          return row && hbm;
        });
  }

 private:
  [[nodiscard]] const isa::Inst& writer(std::uint32_t t) const {
    return program_.insts()[uses_.writers(t).front()];
  }
  [[nodiscard]] bool given(std::uint32_t t) const {
    return program_.tensors()[t].role != isa::TensorRole::kInternal;
  }

  [[nodiscard]] bool loaded(std::uint32_t t) const {
    if (program_.tensors()[t].space != isa::Space::kSbuf || placed_[t] || !uses_.direct(t)) {
      return false;
    }
    const isa::Uses::Numbers writers = uses_.writers(t), readers = uses_.readers(t);
    if (writers.size() != 1 || readers.empty() || readers.front() < writers.front()) return false;
    const isa::Inst& inst = writer(t);
    if (inst.op != isa::Op::k_dma_copy || !values_.pure(writers.front())) return false;
    bool from_hbm = false;
    isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param&, bool write) {
      from_hbm = from_hbm || (!write && !ref.on_chip());
    });
    return from_hbm && inst.loc.kernel_line > 0;
  }

  const isa::Program& program_;
  const std::vector<bool>& placed_;
  const isa::Uses& uses_;
  const Values& values_;
};

}  // namespace

std::vector<std::uint32_t> share_loads(isa::Program& program, const std::vector<bool>& placed,
                                       const isa::Uses& uses, const Values& values,
                                       std::int64_t budget, std::int64_t most_kept) {
  const Repeats repeats(program, placed, uses, values);
  const std::vector<RepeatedLoad> all = repeats.find();
  if (all.empty() || repeats.moves_a_row()) return {};
  const auto [kept, filled] = repeats.kept(all);
  if (kept > most_kept || filled > budget) return {};
  isa::Uses now = uses;
  std::vector<std::uint32_t> unneeded, read_in_place(program.tensors().size());
  for (std::uint32_t t = 0; t < read_in_place.size(); ++t) read_in_place[t] = t;
  for (const RepeatedLoad& r : all) {
    const std::uint32_t to = read_in_place[r.earlier];
    if (!redirect(program, now, r.later, to)) continue;
    read_in_place[r.later] = to;
    unneeded.push_back(uses.writers(r.later).front());
  }
  std::sort(unneeded.begin(), unneeded.end());
  return unneeded;
}

}  // namespace nkisim::compiler
