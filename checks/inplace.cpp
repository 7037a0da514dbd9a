// Finds instructions whose output overlaps an input that they still have to read.
#include "checks/inplace.hpp"

#include <algorithm>
#include <set>

#include "checks/overlap.hpp"
#include "checks/words.hpp"

namespace nkisim::checks {
namespace {

using isa::TensorRef;

constexpr std::int64_t kMostColumns = 1 << 16;  // of which every element is looked at

// Byte offsets of an operand's columns within a partition, in the order in which an engine goes
// over them.
std::vector<std::int64_t> offsets(const TensorRef& ref, const isa::Program& program) {
  const std::int64_t size = isa::size_bytes(ref.dtype);
  std::vector<std::int64_t> all = {program.tensor(ref).address + ref.offset};
  for (const isa::Dim& dim : ref.pattern->dims) {
    std::vector<std::int64_t> next;
    next.reserve(all.size() * static_cast<std::size_t>(dim.num));
    for (const std::int64_t at : all) {
      for (std::int64_t i = 0; i < dim.num; ++i) next.push_back(at + i * dim.step * size);
    }
    all = std::move(next);
  }
  return all;
}

// True if some column of `dst` shares a byte with another column of `src`.
bool crosses(const TensorRef& dst, const TensorRef& src, const isa::Program& program) {
  const std::int64_t written = isa::size_bytes(dst.dtype), read = isa::size_bytes(src.dtype);
  const std::vector<std::int64_t> to = offsets(dst, program), from = offsets(src, program);
  std::vector<std::pair<std::int64_t, std::size_t>> sorted;
  for (std::size_t i = 0; i < from.size(); ++i) sorted.emplace_back(from[i], i);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < to.size(); ++i) {
    auto at = std::upper_bound(sorted.begin(), sorted.end(), std::pair(to[i] - read, from.size()));
    for (; at != sorted.end() && at->first < to[i] + written; ++at) {
      if (at->second != i) return true;
    }
  }
  return false;
}

// True if both cover the same places in the same order, on any partitions.
bool same_places(const TensorRef& a, const TensorRef& b, const isa::Program& program) {
  return a.pattern == b.pattern && isa::size_bytes(a.dtype) == isa::size_bytes(b.dtype) &&
         program.tensor(a).address + a.offset == program.tensor(b).address + b.offset;
}

bool same_storage(const TensorRef& a, const TensorRef& b, const isa::Program& program) {
  if (a.tensor == b.tensor) return true;
  const isa::Tensor &x = program.tensor(a), &y = program.tensor(b);
  const bool placed = !program.virtual_addresses() || (x.fixed && y.fixed);
  return placed && a.on_chip() && a.space == b.space && x.core == y.core;
}

// Elements of any column may come from any other.
bool gathers(const isa::Inst& inst) {
  return isa::spec(inst).moves == isa::OpSpec::Moves::kGathers;
}

bool repeats(const TensorRef& dst) {
  const isa::Pattern& p = *dst.pattern;
  return p.elements > p.last - p.first + 1;
}

class Inplace {
 public:
  explicit Inplace(const isa::Program& program) : program_(program) {}

  std::vector<Remark> run() {
    for (const isa::Inst& inst : program_.insts()) {
      const isa::OpSpec& op = isa::spec(inst);
      if (op.eval != nullptr) look(inst, op);
    }
    return std::move(remarks_);
  }

 private:
  void look(const isa::Inst& inst, const isa::OpSpec& op) {
    int outputs = 0, inputs = 0;
    const TensorRef* twice = nullptr;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      if (inst.args[i].kind != isa::Arg::Kind::kTensor) continue;
      const TensorRef& ref = *inst.args[i].tensor;
      if (!isa::is_written(op.params[i].kind)) {
        ++inputs;
        continue;
      }
      ++outputs;
      if (!ref.on_chip() || ref.dynamic != nullptr) continue;
      if (repeats(ref)) twice = &ref;
      for (std::size_t k = 0; k < inst.args.size(); ++k) {
        if (k == i || inst.args[k].kind != isa::Arg::Kind::kTensor) continue;
        if (isa::is_written(op.params[k].kind)) continue;
        // The run itself finds what a DMA within one tensor makes undefined.
        if (op.dma && inst.args[k].tensor->tensor == ref.tensor) continue;
        compare(inst, ref, *inst.args[k].tensor, op.params[k].name);
      }
    }
    if (twice != nullptr && outputs == 1 && inputs > 0 && !op.dma) {
      remark(isa::Rule::bytes_written_twice, inst,
             "writes the same bytes of " + program_.tensor(*twice).name +
                 " several times; only the last element stays");
    }
  }

  void compare(const isa::Inst& inst, const TensorRef& dst, const TensorRef& src,
               std::string_view param) {
    if (src.dynamic != nullptr || !same_storage(dst, src, program_)) return;
    const std::int64_t columns = src.columns();
    const bool gather = gathers(inst) && param != "indices" && param != "index";
    if (!gather && (columns < 2 || columns != dst.columns() || same_places(dst, src, program_))) {
      return;
    }
    const auto shared =
        shared_bytes(isa::static_footprint(dst, program_), isa::static_footprint(src, program_));
    if (!shared || columns > kMostColumns || dst.columns() > kMostColumns) return;
    if (!gather && !crosses(dst, src, program_)) return;
    remark(isa::Rule::operand_overwritten, inst,
           "overwrites bytes of " + program_.tensor(src).name +
               " that it reads as other "
               "elements of " +
               std::string(param) + ": which of the two values arrives is not defined");
  }

  void remark(isa::Rule rule, const isa::Inst& inst, std::string text) {
    if (remarks_.size() >= kMostRemarks || !said_.insert(line_of(inst)).second) return;
    remarks_.push_back({&inst, rule, std::move(text)});
  }

  const isa::Program& program_;
  std::set<Line> said_;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> inplace_remarks(const isa::Program& program) { return Inplace(program).run(); }

}  // namespace nkisim::checks
