// Checks the instructions at which the two cores of a program wait for each other, and declares
// Parcel, the data that one core hands to the other there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isa/base/dtype.hpp"
#include "isa/machine/definedness.hpp"

namespace nkisim::isa {

/// The data that a core hands to its partner when they meet: an operand's elements, dense and
/// row-major. It is a copy from the moment when the last core arrives. So neither core's own time,
/// nor its next write, can change the partner's data.
struct Parcel {
  std::vector<std::byte> bytes;
  std::int64_t rows = 0, row_bytes = 0;
  Dtype dtype = Dtype::kUint8;            // of the elements
  std::vector<std::uint8_t> undefined{};  // per element, 1: undefined; empty: none is
  std::uint32_t origin = 0;  // where the first of them comes from (isa/machine/definedness.hpp)
  Origin root{};             // ... and where that began: known to other ranks of `program` too
  const Program* program = nullptr;
  std::int64_t lost = -1;  // the first element that the cast to dtype could not keep; -1: none
  float lost_value = 0.0F;
  [[nodiscard]] std::int64_t elements() const {
    return static_cast<std::int64_t>(bytes.size()) / size_bytes(dtype);
  }
};

/// The core that core `id` of two meets.
[[nodiscard]] constexpr std::size_t partner_of(std::size_t id) { return id ^ 1U; }

/// Throws Error, located at the instruction of the first core it concerns, unless the instructions
/// that met (one per core, in the order of the cores) belong together.
void check_meeting(const Program& program, std::span<const Inst* const> met);

/// Throws Error at `waiting`: its core waits there, and the other one is at `other` or (null) has
/// ended.
[[noreturn]] void fail_alone(const Program& program, const Inst& waiting, const Inst* other);

}  // namespace nkisim::isa
