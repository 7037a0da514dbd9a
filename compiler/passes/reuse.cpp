#include "compiler/passes/reuse.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "compiler/analysis/room.hpp"
#include "compiler/analysis/uses.hpp"
#include "isa/program/engine_state.hpp"

namespace nkisim::compiler {
namespace {

// Of SBUF, what longer lives may fill: the rest is the scheduler's.
constexpr double kReuseShare = 0.75;

class Reuser {
 public:
  Reuser(isa::Program& program, const std::vector<bool>& placed)
      : program_(program),
        placed_(placed),
        uses_(uses_of(program)),
        version_(uses_.size() + 1, 0),
        filled_(std::max<std::size_t>(program.insts().size(), 1)),
        room_(static_cast<std::int64_t>(
            kReuseShare * static_cast<double>(program.machine().sbuf_partition_bytes))) {
    for (std::uint32_t t = 0; t < uses_.size(); ++t) {
      if (program.tensors()[t].space != isa::Space::kSbuf || uses_[t].writes == 0) continue;
      filled_.add(uses_[t].first, uses_[t].last + 1, program.tensors()[t].extent_bytes());
    }
  }

  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> repeated;
    if (!program_.control_flow().empty()) return repeated;
    for (std::uint32_t i = 0; i < program_.insts().size(); ++i) {
      const isa::Inst& inst = program_.insts()[i];
      std::uint32_t result = 0;
      if (pure(inst, result)) {
        const auto [entry, fresh] = known_.emplace(key_, result);
        if (!fresh && take(result, entry->second)) {
          repeated.push_back(i);
          continue;
        }
        entry->second = result;
      }
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write) ++version_[memory_of(ref)];
      });
    }
    return repeated;
  }

 private:
  using Key = std::vector<std::int64_t>;

  // Depends on its operands alone; makes key_ and finds its only result.
  bool pure(const isa::Inst& inst, std::uint32_t& result) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.dma || op.rendezvous || op.on_sequencer || op.loads_register || op.eval == nullptr ||
        isa::uses_state(inst) || inst.pinned() || inst.engine == isa::Engine::kTensor ||
        inst.engine == isa::Engine::kSync) {
      return false;
    }
    key_ = {static_cast<std::int64_t>(inst.op), static_cast<std::int64_t>(inst.engine), inst.core};
    int results = 0;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      const isa::Arg arg = as_number(inst.args[i], op.params[i]);
      key_.push_back(static_cast<std::int64_t>(arg.kind));
      switch (arg.kind) {
        case isa::Arg::Kind::kTensor:
          if (op.params[i].kind == isa::ParamKind::kInOut || arg.tensor->dynamic != nullptr) {
            return false;
          }
          if (op.params[i].kind == isa::ParamKind::kOut) {
            if (++results > 1 || !whole(*arg.tensor)) return false;
            result = arg.tensor->tensor;
            add_shape(*arg.tensor);
          } else {
            key_.push_back(arg.tensor->tensor);
            key_.push_back(version_[memory_of(*arg.tensor)]);
            key_.push_back(arg.tensor->partition);
            add_shape(*arg.tensor);
          }
          break;
        case isa::Arg::Kind::kReal:
          key_.push_back(std::bit_cast<std::int64_t>(arg.real));
          break;
        case isa::Arg::Kind::kTensors:
        case isa::Arg::Kind::kList:
        case isa::Arg::Kind::kText:
        case isa::Arg::Kind::kRegister:
          return false;
        default:
          key_.push_back(arg.present() ? arg.integer : 0);
      }
    }
    return results == 1;
  }

  // Where to find its version: on-chip tensors with an address may share their bytes.
  [[nodiscard]] std::size_t memory_of(const isa::TensorRef& ref) const {
    return ref.on_chip() && placed_[ref.tensor] ? version_.size() - 1 : ref.tensor;
  }

  // 1 and true as 1.0 where a real number is wanted: they mean the same.
  static isa::Arg as_number(isa::Arg arg, const isa::Param& param) {
    using enum isa::Arg::Kind;
    if (param.kind == isa::ParamKind::kReal && (arg.kind == kInt || arg.kind == kBool)) {
      arg.real = static_cast<double>(arg.integer);
      arg.kind = kReal;
    }
    if (arg.kind == kBool && param.kind != isa::ParamKind::kBool) arg.kind = kInt;
    return arg;
  }

  void add_shape(const isa::TensorRef& ref) {
    key_.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(ref.pattern)));
    key_.push_back(ref.offset);
    key_.push_back(ref.partitions);
    key_.push_back(static_cast<std::int64_t>(ref.dtype));
  }

  // All of a tensor of SBUF that nothing else writes.
  [[nodiscard]] bool whole(const isa::TensorRef& ref) const {
    const isa::Tensor& t = program_.tensor(ref);
    return ref.space == isa::Space::kSbuf && !placed_[ref.tensor] &&
           uses_[ref.tensor].writes == 1 && ref.pattern->contiguous && ref.offset == 0 &&
           ref.partition == t.partition && ref.partitions == t.shape[0] &&
           ref.columns() * isa::size_bytes(ref.dtype) == t.extent_bytes();
  }

  bool take(std::uint32_t later, std::uint32_t earlier) {
    Uses &from = uses_[later], &to = uses_[earlier];
    const std::int64_t bytes = program_.tensors()[later].extent_bytes();
    if (bytes != program_.tensors()[earlier].extent_bytes() || from.readers.empty()) return false;
    const std::uint32_t between = to.last + 1;
    if (between < from.first && filled_.max(between, from.first) + bytes > room_) return false;
    if (!redirect(program_, from.readers, later, earlier)) return false;
    filled_.add(between, std::max(between, from.first), bytes);
    to.last = std::max(to.last, from.last);
    to.readers.insert(to.readers.end(), from.readers.begin(), from.readers.end());
    return true;
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  std::vector<Uses> uses_;
  std::vector<std::int64_t> version_;  // writes so far, by tensor; last: all with an address
  RangeMax filled_;                    // bytes of SBUF in use, by instruction
  std::int64_t room_;
  std::map<Key, std::uint32_t> known_;  // what was computed, and where it is
  Key key_;
};

}  // namespace

std::vector<std::uint32_t> reuse_results(isa::Program& program, const std::vector<bool>& placed) {
  return Reuser(program, placed).run();
}

Done reuse(Unit& unit) {
  if (unit.choices.reuse == Reuse::k_none || !unit.may_drop()) return {};
  const auto repeated = reuse_results(unit.program, unit.final_addresses());
  unit.program.remove(repeated);
  return {repeated.size()};
}

}  // namespace nkisim::compiler
