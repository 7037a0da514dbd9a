// Groups tensors that must start at the same partition (`partition_groups`), by union-find:
//
//   tensors stay if they have an address, over 64 partitions, or a use that fixes the partition
//     (TensorE, lists, indices, meetings of cores)
//   for each instruction: join the tensors that it reads
//     try the instruction's own checks with the operands at partition 64:
//       inputs that cannot move stay; a result that cannot move alone joins the inputs
//   a group with a tensor that stays, stays
#include "compiler/placement/partitions.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>

#include "isa/program/check.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::int64_t kHalf = 64;  // partitions: a legal start for as many

using Shift = std::vector<std::int32_t>;  // by tensor: partitions to move by

bool shifts(const isa::Inst& inst, const Shift& shift) {
  bool any = false;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    any |= shift[ref.tensor] != 0;
  });
  return any;
}

// The instruction's arguments with the views of shifted tensors moved; `keep(ref)` gives the moved
// view a place that lasts.
template <typename Keep>
std::vector<isa::Arg> shifted(const isa::Inst& inst, const Shift& shift, Keep&& keep) {
  std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
  for (isa::Arg& arg : args) {
    if (arg.kind != isa::Arg::Kind::kTensor || shift[arg.tensor->tensor] == 0) continue;
    isa::TensorRef ref = *arg.tensor;
    ref.partition = static_cast<std::uint16_t>(ref.partition + shift[ref.tensor]);
    arg.tensor = keep(ref);
  }
  return args;
}

class Grouper {
 public:
  Grouper(isa::Program& program, const std::vector<bool>& placed)
      : program_(program),
        stays_(program.tensors().size()),
        parent_(stays_.size()),
        shift_(stays_.size(), 0) {
    std::iota(parent_.begin(), parent_.end(), 0U);
    for (std::uint32_t t = 0; t < stays_.size(); ++t) {
      const isa::Tensor& tensor = program.tensors()[t];
      stays_[t] = placed[t] || tensor.space != isa::Space::kSbuf || tensor.partition != 0 ||
                  tensor.shape[0] > kHalf;
    }
  }

  std::vector<std::int32_t> run() {
    for (const isa::Inst& inst : program_.insts()) pin(inst);
    for (const isa::Inst& inst : program_.insts()) relate(inst);
    for (std::uint32_t t = 0; t < stays_.size(); ++t) {
      if (stays_[t]) stays_[root(t)] = true;
    }
    std::vector<std::int32_t> groups(stays_.size(), -1);
    for (std::uint32_t t = 0; t < groups.size(); ++t) {
      if (!stays_[root(t)]) groups[t] = static_cast<std::int32_t>(root(t));
    }
    return groups;
  }

 private:
  // Uses that are not simply an operand of VectorE, ScalarE, GpSimd or a DMA.
  void pin(const isa::Inst& inst) {
    std::vector<std::uint32_t> direct;
    for (const isa::Arg& arg : inst.args) {
      if (arg.kind == isa::Arg::Kind::kTensor && arg.tensor->dynamic == nullptr) {
        direct.push_back(arg.tensor->tensor);
      }
    }
    const bool other =
        inst.engine == isa::Engine::kTensor || inst.sync != nullptr || isa::spec(inst).rendezvous;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      const auto found = std::find(direct.begin(), direct.end(), ref.tensor);
      if (found == direct.end() || other || ref.dynamic != nullptr) stays_[ref.tensor] = true;
      if (found != direct.end()) direct.erase(found);  // once more elsewhere: an index, a list
    });
  }

  // All operands that an engine reads start on one partition, with or without a rule. A result may
  // start elsewhere where the instruction's rules allow it. DMAs have no such limit.
  void relate(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    std::vector<std::uint32_t> read, written;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      if (inst.args[i].kind != isa::Arg::Kind::kTensor) continue;
      const isa::TensorRef& ref = *inst.args[i].tensor;
      if (!ref.on_chip()) continue;
      (op.dma || op.params[i].kind == isa::ParamKind::kOut ? written : read).push_back(ref.tensor);
    }
    bool together = true;
    for (const std::uint32_t t : read) {
      join(t, read.front());
      together = together && !stays_[t];
    }
    if (!read.empty() && !(together && may_move(inst, read))) stays_[read.front()] = true;
    for (const std::uint32_t t : written) {
      if (stays_[t] || may_move(inst, {&t, 1})) continue;
      if (read.empty()) {
        stays_[t] = true;
      } else {
        join(t, read.front());
      }
    }
  }

  void join(std::uint32_t a, std::uint32_t b) { parent_[root(a)] = root(b); }

  bool may_move(const isa::Inst& inst, std::span<const std::uint32_t> tensors) {
    for (const std::uint32_t t : tensors) shift_[t] = kHalf;
    std::deque<isa::TensorRef> views;
    const auto args = shifted(inst, shift_, [&](const isa::TensorRef& ref) {
      views.push_back(ref);
      return &views.back();
    });
    for (const std::uint32_t t : tensors) {
      program_.set_partition(t, kHalf);
      shift_[t] = 0;
    }
    isa::Inst probe = inst;
    probe.args = args;
    bool may = true;
    try {
      isa::check_inst(probe, program_);
    } catch (const isa::Error&) {
      may = false;
    }
    for (const std::uint32_t t : tensors) program_.set_partition(t, 0);
    return may;
  }

  std::uint32_t root(std::uint32_t t) {
    while (parent_[t] != t) t = parent_[t] = parent_[parent_[t]];
    return t;
  }

  isa::Program& program_;
  std::vector<bool> stays_;
  std::vector<std::uint32_t> parent_;
  Shift shift_;
};

}  // namespace

std::vector<std::int32_t> partition_groups(isa::Program& program, const std::vector<bool>& placed) {
  std::vector<std::pair<std::uint32_t, std::uint16_t>> back;
  for (std::uint32_t t = 0; t < placed.size(); ++t) {
    const isa::Tensor& tensor = program.tensors()[t];
    if (tensor.space == isa::Space::kSbuf && !placed[t] && tensor.partition != 0)
      back.emplace_back(t, 0);
  }
  move_partitions(program, back);
  return Grouper(program, placed).run();
}

bool move_partitions(isa::Program& program,
                     const std::vector<std::pair<std::uint32_t, std::uint16_t>>& starts) {
  Shift shift(program.tensors().size(), 0);
  const auto swap = [&](int sign) {
    for (const auto& [t, start] : starts) {
      const int now = program.tensors()[t].partition;
      if (sign > 0) shift[t] = start - now;
      program.set_partition(t, static_cast<std::uint16_t>(sign > 0 ? start : now - shift[t]));
    }
  };
  swap(1);
  std::vector<std::pair<std::size_t, std::vector<isa::Arg>>> changed;
  for (std::size_t i = 0; i < program.insts().size(); ++i) {
    if (!shifts(program.insts()[i], shift)) continue;
    isa::Inst probe = program.insts()[i];
    changed.emplace_back(
        i, shifted(probe, shift, [&](const isa::TensorRef& ref) { return program.add_ref(ref); }));
    probe.args = changed.back().second;
    try {
      isa::check_inst(probe, program);
    } catch (const isa::Error&) {
      swap(-1);
      return false;
    }
  }
  for (const auto& [i, args] : changed) program.set_args(i, args);
  return true;
}

}  // namespace nkisim::compiler
