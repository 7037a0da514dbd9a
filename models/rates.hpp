// Defines every rate and latency of a device as plain values, from the list configs/config.def. The
// initial values here say nothing about a chip.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/base/machine.hpp"
#include "isa/base/part.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// The wiring of an instance's chips.
enum class Wiring : std::uint8_t { kTorus, kChain, kSwitch };

/// The types of config.def's kinds.
namespace kinds {
using time = Fs;
using number = double;
using whole = std::int64_t;
using count = int;
using flag = bool;
using times = std::vector<Fs>;
using wiring = Wiring;
using mode = isa::DgeMode;
}  // namespace kinds

#define NKISIM_SECTION(type, schema, words) struct type {
#define NKISIM_VALUE(kind, key, member, initial, bound, words) kinds::kind member = initial;
#define NKISIM_ADDED NKISIM_VALUE
#define NKISIM_EACH_ENGINE(kind, key, member, words) \
  std::array<kinds::kind, isa::kEngineCount> member{};
#define NKISIM_PART(type, key, member, words) type member;
#define NKISIM_END(type) \
  }                      \
  ;
#include "configs/config.def"
#undef NKISIM_SECTION
#undef NKISIM_VALUE
#undef NKISIM_ADDED
#undef NKISIM_EACH_ENGINE
#undef NKISIM_PART
#undef NKISIM_END

}  // namespace nkisim::models
