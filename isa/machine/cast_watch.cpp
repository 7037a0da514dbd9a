// Casts FP32 values to an operand's dtype, and names the first that the dtype cannot hold.
#include "isa/machine/cast_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "isa/base/overflow.hpp"
#include "isa/machine/operand_walk.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

// Elements of an instruction that are looked at again when it is known which are undefined.
constexpr std::size_t kCandidates = std::size_t{1} << 16U;

Tile<std::byte> CastWatch::cast(const TensorRef& dst, const Tile<float>& values) {
  const Tile<std::byte> raw = make<std::byte>(dst.rows(), dst.columns() * size_bytes(dst.dtype));
  const auto count = static_cast<std::size_t>(values.size());
  watch(dst, values.data, count);
  encode(dst.dtype, values.data, count, raw.data);
  return raw;
}

void IntegerCastsByPlace::add(const Inst& inst, Dtype dtype, const float* values,
                              std::size_t count) {
  IntegerCasts& here =
      places_.try_emplace(place_of(inst.loc), IntegerCasts{&inst, dtype}).first->second;
  if (here.most >= here.small()) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != 0.0F) ++here.values;
    if (values[i] != std::rint(values[i])) ++here.fractions;
    here.most = std::max(here.most, std::fabs(values[i]));
  }
}

// Engines round to 32-bit integers on purpose, to drop fractions of positions. A DMA does not.
static bool may_lose_fractions(const Inst& inst, Dtype dtype) {
  if (!is_integer(dtype) || dtype == Dtype::kBool) return false;
  return size_bytes(dtype) <= 2 || (spec(inst).dma && spec(inst).moves == OpSpec::Moves::kCopies);
}

// Where undefined values go in, elements that depend on them must not be named. Which they are is
// known after all evaluations, so the first one collects candidates.
void CastWatch::watch(const TensorRef& dst, const float* values, std::size_t count,
                      std::size_t first) {
  const bool unsure = log_ != nullptr;
  if (!watches_ || (unsure && !log_->first())) return;
  if (!unsure && may_lose_fractions(*inst_, dst.dtype)) {
    memory_.integer_casts().add(*inst_, dst.dtype, values, count);
  }
  const std::size_t most = unsure ? kCandidates : 1;
  for (std::size_t i = 0; overflow_.size() < most; ++i) {
    i = find_overflow(dst.dtype, values, count, i);
    if (i == count) break;
    overflow_.push_back({&dst, first + i, values[i], unsure});
  }
  if (unsure || !overflow_.empty() || !rounds_integers(dst)) return;
  const std::size_t i = find_beyond_integers(values, count);
  if (i == count) return;
  overflow_.push_back({&dst, first + i, values[i], false, std::nullopt, Rule::integer_rounded});
}

// Integers alone go through FP32 into 32-bit integers.
bool CastWatch::rounds_integers(const TensorRef& dst) const {
  if (dst.dtype != Dtype::kInt32 && dst.dtype != Dtype::kUint32) return false;
  if (rules_.of(Rule::integer_rounded) == Level::kOff) return false;
  bool any = false, all = true;
  for_each_tensor(*inst_, [&](const TensorRef& ref, const Param&, bool written) {
    any |= !written;
    all &= written || is_integer(ref.dtype);
  });
  return any && all;
}

void CastWatch::watch_words(const TensorRef& dst, AluOp op, const std::uint32_t* a,
                            const std::uint32_t* b, std::size_t count, std::size_t first) {
  const bool unsure = log_ != nullptr;
  if (!watches_ || dst.dtype != Dtype::kInt32 || (unsure && !log_->first())) return;
  const std::size_t most = unsure ? kCandidates : 1;
  for (std::size_t i = 0; overflow_.size() < most; ++i) {
    i = find_wrap(op, a, b, count, i);
    if (i == count) return;
    overflow_.push_back({&dst, first + i, 0.0F, unsure, unwrapped(op, a[i], b[i])});
  }
}

// Where an element of an operand lies: its row and column in the tensor (in HBM: in all of it), and
// whether it is defined.
CastWatch::Found CastWatch::find_element(const TensorRef& ref, std::size_t element) {
  const Placement place = memory_.place(ref);
  const std::int64_t size = size_bytes(ref.dtype), base = place.start - ref.offset;
  const Tensor& tensor = program_.tensor(ref);
  auto left = static_cast<std::int64_t>(element);
  Found found;
  walk(ref, Touch::kSome, [&](const Run& run) {
    if (left >= 0 && left < run.count && run.data != nullptr) {
      const std::int64_t byte = run.data + left * run.step_bytes - place.region->data();
      found.defined = place.bits->find_undefined(place.bit(byte, run.row), size) < 0;
      const std::int64_t flat = (byte - base - (ref.on_chip() ? run.row * place.pitch : 0)) / size;
      const std::int64_t width =
          ref.on_chip() ? flat + 1 : std::max<std::int64_t>(tensor.shape.back(), 1);
      found.row = ref.on_chip() ? ref.partition - tensor.partition + run.row : flat / width;
      found.column = flat % width;
    }
    left -= run.count;
  });
  return found;
}

void CastWatch::say_overflow() {
  const std::vector<Overflow> candidates = std::exchange(overflow_, {});
  if (reported_.contains(place_of(inst_->loc))) return;
  for (const Overflow& o : candidates) {
    const Found at = find_element(*o.ref, o.element);
    if (o.unsure && !at.defined) continue;
    reported_.insert(place_of(inst_->loc));
    const std::string value = o.rule == Rule::integer_rounded ? describe_rounded(o.value)
                              : o.exact                       ? describe_wrap(*o.exact)
                                        : describe_overflow(o.ref->dtype, o.value);
    return report(rules_.of(o.rule), o.rule,
                  "element [" + std::to_string(at.row) + ", " + std::to_string(at.column) +
                      "] of " + program_.tensor(*o.ref).name + " is " + value);
  }
}

}  // namespace nkisim::isa
