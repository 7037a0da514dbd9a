#include "compiler/passes/merge.hpp"

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/rewrite.hpp"
#include "compiler/analysis/uses.hpp"

namespace nkisim::compiler {
namespace {

// Copies whose results lie side by side, in that order.
struct CopyGroup {
  std::vector<std::uint32_t> copies, sources;
  const isa::TensorRef *first = nullptr, *last = nullptr;  // where they copy to
};

class Merger {
 public:
  Merger(isa::Program& program, const std::vector<bool>& placed)
      : program_(program), placed_(placed), uses_(uses_of(program)), rewrite_(program) {}

  std::size_t run() {
    find_groups();
    std::size_t merged = 0;
    for (const CopyGroup& group : found_) {
      if (group.copies.size() < 2) continue;
      merged += group.copies.size() - 1;
      apply(group);
    }
    rewrite_.finish();
    return merged;
  }

 private:
  void find_groups() {
    const std::size_t count = program_.insts().size();
    for (std::uint32_t i = 0; i < count; ++i) {
      const isa::Inst& inst = program_.insts()[i];
      const isa::TensorRef* to = destination(i);
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
        if (to == nullptr || ref.tensor != to->tensor) close(ref.tensor);
      });
      if (to != nullptr) extend(i, *to);
    }
    while (!open_.empty()) close(open_.begin()->first);
  }

  // Where instruction i copies all of a PSUM tile to that nothing else reads; null if it does not.
  [[nodiscard]] const isa::TensorRef* destination(std::uint32_t i) const {
    const isa::Inst& inst = program_.insts()[i];
    if (inst.op != isa::Op::k_tensor_copy || !inst.engine_open || inst.pinned()) {
      return nullptr;
    }
    const isa::OpSpec& op = isa::spec(inst);
    const isa::TensorRef& dst = inst.tensor(isa::param_index(op, "dst"));
    const isa::TensorRef& src = inst.tensor(isa::param_index(op, "src"));
    const Uses& uses = uses_[src.tensor];
    const bool fits = dst.space == isa::Space::kSbuf && src.space == isa::Space::kPsum &&
                      is_dense(dst) && is_dense(src) && !placed_[src.tensor] &&
                      !placed_[dst.tensor] && src.dtype == program_.tensor(src).dtype &&
                      src.bytes() == program_.tensor(src).extent_bytes() * src.partitions &&
                      src.partitions == program_.tensor(src).shape[0] && uses.readers.size() == 1 &&
                      uses.last == i && only_products_write(src.tensor);
    return fits ? &dst : nullptr;
  }

  [[nodiscard]] static bool is_dense(const isa::TensorRef& ref) {
    return ref.dynamic == nullptr && ref.pattern->contiguous;
  }

  // By TensorE, at fixed places; what is in the bank is then its business alone.
  [[nodiscard]] bool only_products_write(std::uint32_t t) const {
    const Uses& uses = uses_[t];
    std::uint32_t writes = 0;
    for (std::uint32_t i = uses.first; i < uses.last; ++i) {
      const isa::Inst& inst = program_.insts()[i];
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (ref.tensor != t || !write || ref.dynamic != nullptr) return;
        if (inst.engine == isa::Engine::kTensor) ++writes;
      });
      if (uses.last - uses.first > kFar) return false;
    }
    return writes == uses.writes;
  }

  void extend(std::uint32_t i, const isa::TensorRef& to) {
    const std::uint32_t source = source_of(i);
    CopyGroup& group = open_[to.tensor];
    if (!group.copies.empty() && !continues(group, i, to)) {
      found_.push_back(std::move(group));
      group = {};
    }
    if (group.copies.empty()) group.first = &to;
    group.last = &to;
    group.copies.push_back(i);
    group.sources.push_back(source);
  }

  [[nodiscard]] std::uint32_t source_of(std::uint32_t i) const {
    const isa::Inst& inst = program_.insts()[i];
    return inst.tensor(isa::param_index(isa::spec(inst), "src")).tensor;
  }

  [[nodiscard]] bool continues(const CopyGroup& group, std::uint32_t i,
                               const isa::TensorRef& to) const {
    const isa::Inst &now = program_.insts()[i], &before = program_.insts()[group.copies.back()];
    const isa::Tensor &mine = program_.tensors()[source_of(i)],
                      &first = program_.tensors()[group.sources.front()];
    const auto size = static_cast<std::int64_t>(group.copies.size()) + 1;
    return now.loc.kernel_line == before.loc.kernel_line &&
           now.loc.kernel_file == before.loc.kernel_file && now.core == before.core &&
           mine.dtype == first.dtype && mine.shape == first.shape &&
           mine.partition == first.partition && to.dtype == group.last->dtype &&
           to.partition == group.last->partition && to.partitions == group.last->partitions &&
           to.offset == group.last->offset + group.last->columns() * isa::size_bytes(to.dtype) &&
           size * mine.extent_bytes() <= program_.machine().psum_bank_bytes();
  }

  void close(std::uint32_t tile) {
    const auto group = open_.find(tile);
    if (group == open_.end()) return;
    found_.push_back(std::move(group->second));
    open_.erase(group);
  }

  void apply(const CopyGroup& group) {
    const isa::Tensor& one = program_.tensors()[group.sources.front()];
    const std::int64_t bytes = one.extent_bytes();
    isa::Tensor all = one;
    all.name += "~" + std::to_string(group.copies.size());
    all.shape = {one.shape[0], static_cast<std::int64_t>(group.copies.size()) * bytes /
                                   isa::size_bytes(one.dtype)};
    const std::uint32_t bank = program_.add_tensor(std::move(all));
    for (std::size_t k = 0; k < group.sources.size(); ++k) {
      move_writes(group.sources[k], bank, static_cast<std::int64_t>(k) * bytes);
    }
    for (const std::uint32_t copy : group.copies) rewrite_.drop(copy);
    isa::TensorRef to = *group.first;
    to.pattern = program_.intern({{1, program_.tensors()[bank].shape[1]}});
    isa::Inst copy = program_.insts()[group.copies.back()];
    copy.engine = isa::Engine::kAny;
    copy.forward = false;
    rewrite_.put(
        group.copies.back(), copy,
        tensor_arguments(copy.op, {{"dst", program_.add_ref(to)}, {"src", program_.whole(bank)}}));
  }

  void move_writes(std::uint32_t from, std::uint32_t to, std::int64_t offset) {
    for (std::uint32_t i = uses_[from].first; i < uses_[from].last; ++i) {
      const isa::Inst& inst = program_.insts()[i];
      std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
      bool changed = false;
      for (isa::Arg& arg : args) {
        if (arg.kind != isa::Arg::Kind::kTensor || arg.tensor->tensor != from) continue;
        isa::TensorRef ref = *arg.tensor;
        ref.tensor = to;
        ref.offset += offset;
        arg.tensor = program_.add_ref(ref);
        changed = true;
      }
      if (changed) program_.set_args(i, args);
    }
  }

  static constexpr std::uint32_t kFar = 4096;  // instructions between a tile's product and its copy
  isa::Program& program_;
  const std::vector<bool>& placed_;
  std::vector<Uses> uses_;
  Rewrite rewrite_;
  std::unordered_map<std::uint32_t, CopyGroup> open_;  // by the tile that they copy to
  std::vector<CopyGroup> found_;
};

}  // namespace

Done merge(Unit& unit) {
  if (unit.choices.merge == Merge::k_none || !unit.origin.open || !unit.may_drop()) return {};
  return {Merger(unit.program, unit.final_addresses()).run()};
}

}  // namespace nkisim::compiler
