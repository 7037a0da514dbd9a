// Numbers the contents of tensors: equal numbers mean equal bytes for any inputs.
#include "compiler/analysis/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "isa/program/engine_state.hpp"
#include "isa/program/footprint.hpp"
#include "isa/program/writes.hpp"

namespace nkisim::compiler {
namespace {

// 1 and true as 1.0 where a real number is wanted: they mean the same.
isa::Arg as_number(isa::Arg arg, const isa::Param& param) {
  using enum isa::Arg::Kind;
  if (param.kind == isa::ParamKind::kReal && (arg.kind == kInt || arg.kind == kBool)) {
    arg.real = static_cast<double>(arg.integer);
    arg.kind = kReal;
  }
  if (arg.kind == kBool && param.kind != isa::ParamKind::kBool) arg.kind = kInt;
  return arg;
}

bool depends_on_operands_alone(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  return op.control == isa::OpSpec::Control::kNone && !op.rendezvous && !op.on_sequencer &&
         !op.loads_register && op.eval != nullptr && !isa::uses_state(inst) && !inst.pinned() &&
         inst.dma == nullptr;
}

std::uint64_t hash_of(std::span<const std::int64_t> key) {
  std::uint64_t h = key.size();
  for (const std::int64_t word : key) {
    h = (h ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15U;
    h ^= h >> 29U;
  }
  return h;
}

// Words in as few bytes as they need, most of them in one: keys are remembered for every value.
void pack(std::span<const std::int64_t> key, std::vector<std::uint8_t>& out) {
  constexpr std::size_t kMost = 10;  // bytes of a word
  out.resize(kMost * key.size());
  std::uint8_t* to = out.data();
  for (const std::int64_t word : key) {
    auto left = static_cast<std::uint64_t>(word);
    left = left << 1U ^ (word < 0 ? ~std::uint64_t{0} : 0);
    for (; left >= 0x80U; left >>= 7U) *to++ = static_cast<std::uint8_t>(left | 0x80U);
    *to++ = static_cast<std::uint8_t>(left);
  }
  out.resize(static_cast<std::size_t>(to - out.data()));
}

}  // namespace

Values::Values(const isa::Program& program, const std::vector<bool>& placed)
    : program_(&program), placed_(placed) {
  pure_.reserve(program.insts().size());
  begin();
}

Values Values::of(const isa::Program& program, const std::vector<bool>& placed) {
  Values values(program, placed);
  for (const isa::Inst& inst : program.insts()) {
    if (inst.op == isa::Op::k_nc_transpose) {
      values.forget(inst);
    } else {
      values.number(inst);
    }
  }
  return values;
}

// Tiles of one size hold the same unwritten value.
void Values::begin() {
  placed_bytes_ = next_++;
  using Size = std::array<std::int64_t, 5>;
  std::array<std::pair<Size, std::uint32_t>, 8> recent{};  // sizes that came last, with numbers
  std::size_t oldest = 0;
  now_.reserve(program_->tensors().size());
  for (const isa::Tensor& t : program_->tensors()) {
    if (t.space == isa::Space::kHbm) {
      now_.push_back({next_++, 0});
      continue;
    }
    const Size key = {-1, static_cast<std::int64_t>(t.space), t.core, t.shape[0], t.extent_bytes()};
    auto known = std::find_if(recent.begin(), recent.end(),
                              [&](const auto& size) { return size.first == key; });
    if (known == recent.end()) {
      known = recent.begin() + static_cast<std::ptrdiff_t>(oldest);
      oldest = (oldest + 1) % recent.size();
      *known = {key, number_of(key)};
    }
    now_.push_back({known->second, 0});
  }
  untouched_ = now_;
}

std::uint32_t Values::number_of(std::span<const std::int64_t> key) {
  if (2 * keys_ >= slots_.size()) widen();
  const std::uint64_t hash = hash_of(key);
#if defined(__GNUC__)
  __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);  // while the key is packed
#endif
  pack(key, packed_);
  Slot& slot = slot_of(hash, packed_);
  if (slot.size == 0) {
    slot = {hash, bytes_.size(), static_cast<std::uint32_t>(packed_.size()), next_++};
    bytes_.insert(bytes_.end(), packed_.begin(), packed_.end());
    ++keys_;
  }
  return slot.number;
}

// The slot that holds the key, or will hold it.
Values::Slot& Values::slot_of(std::uint64_t hash, std::span<const std::uint8_t> key) {
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].size != 0) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.size == key.size() &&
        std::equal(key.begin(), key.end(), bytes_.data() + slot.begin)) {
      break;
    }
    at = (at + 1) & (slots_.size() - 1);
  }
  return slots_[at];
}

void Values::widen() {
  constexpr std::size_t kLeast = 1024;
  const std::vector<Slot> old = std::exchange(slots_, {});
  // Most instructions leave a content of their own: the first table has places for half of them.
  slots_.resize(old.empty() ? std::max(kLeast, std::bit_ceil(program_->insts().size()))
                            : 2 * old.size());
  for (const Slot& slot : old) {
    if (slot.size == 0) continue;
    slot_of(slot.hash, std::span(bytes_).subspan(slot.begin, slot.size)) = slot;
  }
}

bool Values::number(const isa::Inst& inst) {
  key_.clear();
  result_ = nullptr;
  depth_ = 0;
  const bool pure = make_key(inst) && result_ != nullptr && result_->on_chip();
  if (!pure) {
    forget(inst);
    return false;
  }
  pure_.push_back(true);
  write(inst);
  return true;
}

void Values::forget(const isa::Inst& inst) {
  pure_.push_back(false);
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool written) {
    if (!written) return;
    renew(ref.tensor);
    if (shares_bytes(ref)) placed_bytes_ = next_++;
  });
}

bool Values::shares_bytes(const isa::TensorRef& ref) const {
  return ref.on_chip() && placed_[ref.tensor];
}

bool Values::make_key(const isa::Inst& inst) {
  if (!depends_on_operands_alone(inst)) return false;
  const isa::OpSpec& op = isa::spec(inst);
  // The engine decides how a result is rounded; who triggers a transfer does not.
  const auto engine = op.dma ? std::int64_t{-1} : static_cast<std::int64_t>(inst.engine);
  key_ = {static_cast<std::int64_t>(inst.op), engine, inst.core};
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    if (!add_argument(inst.args[i], op.params[i])) return false;
  }
  return true;
}

bool Values::add_argument(const isa::Arg& given, const isa::Param& param) {
  const isa::Arg arg = as_number(given, param);
  key_.push_back(static_cast<std::int64_t>(arg.kind));
  switch (arg.kind) {
    case isa::Arg::Kind::kTensor:
      if (param.kind == isa::ParamKind::kInOut || arg.tensor->dynamic != nullptr) return false;
      if (param.kind == isa::ParamKind::kOut && (result_ != nullptr || shares_bytes(*arg.tensor))) {
        return false;
      }
      // Other cores may write to memory that they share at any time.
      if (!arg.tensor->on_chip() && program_->cores() > 1 &&
          program_->tensor(*arg.tensor).written) {
        return false;
      }
      add_operand(*arg.tensor, param);
      return true;
    case isa::Arg::Kind::kReal:
      key_.push_back(std::bit_cast<std::int64_t>(arg.real));
      return true;
    case isa::Arg::Kind::kList:
      key_.push_back(static_cast<std::int64_t>(arg.list->size()));
      key_.insert(key_.end(), arg.list->begin(), arg.list->end());
      return true;
    case isa::Arg::Kind::kTensors:
    case isa::Arg::Kind::kText:
    case isa::Arg::Kind::kRegister:
      return false;
    default:
      key_.push_back(arg.present() ? arg.integer : 0);
      return true;
  }
}

void Values::add_operand(const isa::TensorRef& ref, const isa::Param& param) {
  if (param.kind == isa::ParamKind::kOut) {
    result_ = &ref;
    output_ = &param;
  } else if (shares_bytes(ref)) {
    key_.insert(key_.end(), {-3, ref.tensor, placed_bytes_});
  } else {
    const Value& value = now_[ref.tensor];
    key_.push_back(value.number);
    depth_ = std::max(depth_, value.depth);
  }
  add_shape(ref);
}

void Values::add_shape(const isa::TensorRef& ref) {
  key_.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(ref.pattern)));
  key_.push_back(ref.offset);
  key_.push_back(ref.partition - program_->tensor(ref).partition);
  key_.push_back(ref.partitions);
  key_.push_back(static_cast<std::int64_t>(ref.dtype));
}

void Values::write(const isa::Inst& inst) {
  Value& value = now_[result_->tensor];
  if (overwrites(inst)) value = untouched_[result_->tensor];
  value.depth = std::max(value.depth, depth_ + 1);
  key_.push_back(-2);
  key_.push_back(value.number);
  value.number = number_of(key_);
}

// Replaces all of its result, whatever that was.
bool Values::overwrites(const isa::Inst& inst) const {
  if (isa::adds(inst) || isa::leaves_parts(*program_, inst, *output_)) return false;
  return isa::reaches_all(*result_, *program_);
}

}  // namespace nkisim::compiler
