// Computes the next number of a XORWOW random generator, and fills its state from a seed.

#include "isa/base/xorwow.hpp"

namespace nkisim::isa {
namespace {

std::uint64_t split_mix(std::uint64_t& x) {
  x += 0x9e3779b97f4a7c15U;
  std::uint64_t z = x;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace

std::uint32_t nonzero_word(std::uint64_t& x) {
  std::uint32_t word = 0;
  while (word == 0) word = static_cast<std::uint32_t>(split_mix(x) >> 32U);
  return word;
}

std::uint64_t seed_origin(std::uint32_t seed, std::uint32_t use, std::size_t lane) {
  return (std::uint64_t{seed} << 32U) | (std::uint64_t{use} << 16U) | lane;
}

void fill(Xorwow& state, std::uint64_t origin) {
  for (std::uint32_t& word : state.words) word = nonzero_word(origin);
}

std::uint32_t next_xorwow(Xorwow& state) {
  auto& s = state.words;
  const std::uint32_t t = s[0] ^ (s[0] >> 2U);
  s[0] = s[1];
  s[1] = s[2];
  s[2] = s[3];
  s[3] = s[4];
  s[4] = (s[4] ^ (s[4] << 4U)) ^ (t ^ (t << 1U));
  s[5] += 362437U;
  return s[5] + s[4];
}

float unit_float(std::uint32_t bits) { return static_cast<float>(bits >> 8U) * 0x1p-24F; }

void seed_xorwow(Xorwow& state, std::uint32_t seed, std::uint32_t set, std::size_t lane) {
  constexpr std::uint32_t kUse = 16;  // apart from the engines' own generators
  fill(state, seed_origin(seed, kUse + set, lane));
}

}  // namespace nkisim::isa
