// Assigns value numbers to executed instructions: equal numbers mean equal results.
#include "checks/value_numbers.hpp"

#include <algorithm>

#include "isa/machine/eval.hpp"

namespace nkisim::checks {
namespace {

using isa::Arg;
using isa::TensorRef;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {  // splitmix64's
  std::uint64_t z = (a + 0x9E3779B97F4A7C15U) ^ b;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

bool same_ref(const TensorRef& a, const TensorRef& b) {
  return a.tensor == b.tensor && a.offset == b.offset && a.pattern == b.pattern &&
         a.dynamic == b.dynamic && a.partition == b.partition && a.partitions == b.partitions &&
         a.dtype == b.dtype;
}

bool same_argument(const Arg& a, const Arg& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Arg::Kind::kTensor) return same_ref(*a.tensor, *b.tensor);
  if (a.kind == Arg::Kind::kTensors) {
    return std::equal(a.tensors->begin(), a.tensors->end(), b.tensors->begin(), b.tensors->end(),
                      [](const TensorRef* x, const TensorRef* y) { return same_ref(*x, *y); });
  }
  if (a.kind == Arg::Kind::kList) return *a.list == *b.list;
  return a.integer == b.integer;
}

std::uint64_t word(const TensorRef& ref) {
  std::uint64_t h = mix(ref.tensor, static_cast<std::uint64_t>(ref.offset));
  h = mix(h, reinterpret_cast<std::uintptr_t>(ref.pattern));
  h = mix(h, reinterpret_cast<std::uintptr_t>(ref.dynamic));
  return mix(h, static_cast<std::uint64_t>(ref.partition) << 32U |
                    static_cast<std::uint64_t>(ref.partitions) << 8U |
                    static_cast<std::uint64_t>(ref.dtype));
}

std::uint64_t word(const Arg& arg) {
  std::uint64_t h = static_cast<std::uint64_t>(arg.kind);
  if (arg.kind == Arg::Kind::kTensor) return mix(h, word(*arg.tensor));
  if (arg.kind == Arg::Kind::kTensors) {
    for (const TensorRef* ref : *arg.tensors) h = mix(h, word(*ref));
    return h;
  }
  if (arg.kind == Arg::Kind::kList) {
    for (const std::int64_t n : *arg.list) h = mix(h, static_cast<std::uint64_t>(n));
    return h;
  }
  return mix(h, static_cast<std::uint64_t>(arg.integer));
}

}  // namespace

bool same_words(const isa::Inst& a, const isa::Inst& b) {
  return a.op == b.op &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_argument);
}

void ValueNumbers::enter(const isa::Inst& loop) {
  within_ = true;
  if (isa::spec(loop).control == isa::OpSpec::Control::kLoopBegin) {
    varying_.set(static_cast<std::size_t>(loop.arg(0).integer) % varying_.size());
  }
}

void ValueNumbers::leave() {
  within_ = again_ = false;
  varying_.reset();
}

void ValueNumbers::step(const isa::Inst& inst) {
  if (!within_ || inst.args.empty() || inst.args[0].kind != Arg::Kind::kRegister) return;
  const isa::OpSpec& op = isa::spec(inst);
  if (op.control != isa::OpSpec::Control::kNone || op.params[0].name != "dst") return;
  const bool differs = std::any_of(inst.args.begin() + 1, inst.args.end(), [&](const Arg& a) {
    return varies(a) || (a.kind == Arg::Kind::kRegister && a.integer == inst.args[0].integer);
  });
  varying_.set(static_cast<std::size_t>(inst.args[0].integer) % varying_.size(), differs);
}

bool ValueNumbers::varies(const TensorRef& ref) const {
  for (const isa::DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == isa::DynamicOffset::Kind::kRegister && varying_.test(d->reg % varying_.size())) {
      return true;
    }
  }
  return false;
}

bool ValueNumbers::varies(const Arg& arg) const {
  if (arg.kind == Arg::Kind::kTensor) return varies(*arg.tensor);
  return arg.kind == Arg::Kind::kRegister &&
         varying_.test(static_cast<std::size_t>(arg.integer) % varying_.size());
}

std::uint64_t ValueNumbers::number(const isa::Inst& inst, std::uint64_t sources) const {
  std::uint64_t h = mix(static_cast<std::uint64_t>(inst.op), sources);
  bool differs = false;
  for (const Arg& arg : inst.args) {
    h = mix(h, word(arg));
    differs = differs || varies(arg);
  }
  return differs && again_ ? mix(h, 1) : h;
}

}  // namespace nkisim::checks
