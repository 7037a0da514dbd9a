// Implements XORWOW, the random number generator of the engines, and derives from one seed the
// state of each lane (the part of an engine that works on one partition).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nkisim::isa {

/// XORWOW generator of one lane: five words of xorshift state and a counter.
struct Xorwow {
  std::array<std::uint32_t, 6> words{};
};

[[nodiscard]] std::uint32_t next_xorwow(Xorwow& state);
/// Uniform in [0, 1): the upper 24 bits.
[[nodiscard]] float unit_float(std::uint32_t bits);

/// Lanes and uses of a seed get far apart starting points of SplitMix64 (assumed: no document
/// says).
[[nodiscard]] std::uint64_t seed_origin(std::uint32_t seed, std::uint32_t use, std::size_t lane);
/// The next word of SplitMix64 that is not 0.
[[nodiscard]] std::uint32_t nonzero_word(std::uint64_t& x);
void fill(Xorwow& state, std::uint64_t origin);
/// A starting state for `lane` of one of several sets of generators.
void seed_xorwow(Xorwow& state, std::uint32_t seed, std::uint32_t set, std::size_t lane);

}  // namespace nkisim::isa
