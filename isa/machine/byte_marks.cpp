// Checks that bytes which are read are defined, and marks those that are written.
#include "isa/machine/byte_marks.hpp"

#include <algorithm>

#include "isa/program/program.hpp"

namespace nkisim::isa {

bool ByteMarks::tracks_origin(Space space) const {
  return space == Space::kPsum && machine().generation < Generation::kV4;
}

void ByteMarks::touch(const TensorRef& ref, const Placement& place, Touch how,
                      const RunPlace& run) {
  const bool check = how == Touch::kRead && unwritten_ == Unwritten::kError && log_ == nullptr;
  if (!check && how != Touch::kWrite) return;
  const std::int64_t size = size_bytes(ref.dtype);
  const bool dense = run.step == size || run.count == 1;
  if (how == Touch::kWrite) {
    wrote_ = true;
    if (dense) return mark_written(ref, place, run.row, run.byte, run.count * size);
  }
  // A spread-out run inside a span that is all defined needs no look at each element.
  const std::int64_t last = run.byte + run.step * (run.count - 1);
  const std::int64_t lo = std::min(run.byte, last), hi = std::max(run.byte, last) + size;
  const bool fresh = place.bits->find_undefined(place.bit(lo, run.row), hi - lo) >= 0;
  if (how == Touch::kWrite) {
    if (!fresh && marks_only_bits(ref.space)) return;
    for (std::int64_t i = 0; i < run.count; ++i) {
      mark_written(ref, place, run.row, run.byte + i * run.step, size);
    }
    return;
  }
  if (fresh && dense) throw FoundUndefined{};
  for (std::int64_t i = 0; i < run.count && fresh; ++i) {
    const std::int64_t at = place.bit(run.byte + i * run.step, run.row);
    if (place.bits->find_undefined(at, size) >= 0) throw FoundUndefined{};
  }
}

void ByteMarks::mark_written(const TensorRef& ref, const Placement& place, std::int64_t row,
                             std::int64_t first, std::int64_t count) {
  if (log_ != nullptr) {
    const std::byte* at = place.region->data() + first;
    log_->note(at, at + count);
    return;
  }
  const std::int64_t bit = place.bit(first, row);
  place.bits->define(bit, count);
  if (tracks_origin(ref.space)) {
    place.region->mark_foreign(first, count, engine_ != Engine::kTensor);
  }
  if (!memory_.any_sharing() || !ref.on_chip() || unwritten_ == Unwritten::kAllow) return;
  memory_.overwrite_sharing(ref.tensor, bit, count, *inst_);
}

// The origin of the undefined byte `byte` (of the region) of an operand's row.
std::uint32_t ByteMarks::origin_of(const TensorRef& ref, const Placement& place, std::int64_t byte,
                                   std::int64_t row) {
  const std::uint32_t known = place.bits->origin(place.bit(byte, row));
  if (known != 0) return known;
  const std::int64_t extent = program_.tensor(ref).extent_bytes();
  const std::int64_t within = place.bit(byte, row);  // rows of `extent` bytes
  return memory_.origins().root(
      {.kind = Origin::Kind::kNeverWritten,
       .tensor = ref.tensor,
       .byte = ref.on_chip() ? within % extent : within,
       .partition = ref.on_chip() ? ref.partition + static_cast<int>(row) : -1});
}

}  // namespace nkisim::isa
