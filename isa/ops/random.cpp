#include "isa/ops/random.hpp"

namespace nkisim::isa {
namespace {

constexpr std::uint32_t kTaps = 0x80200003U;  // x^32 + x^22 + x^2 + x + 1, Galois form

// The 32 steps of one number are linear in the state: the effect of each of its bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 4> kLeap = [] {
  std::array<std::array<std::uint32_t, 256>, 4> table{};
  for (std::uint32_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t value = 0; value < 256; ++value) {
      std::uint32_t s = value << (8U * byte);
      for (int i = 0; i < 32; ++i) s = (s & 1U) != 0 ? (s >> 1U) ^ kTaps : s >> 1U;
      table[byte][value] = s;
    }
  }
  return table;
}();

std::uint64_t split_mix(std::uint64_t& x) {
  x += 0x9e3779b97f4a7c15U;
  std::uint64_t z = x;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

std::uint32_t nonzero_word(std::uint64_t& x) {
  std::uint32_t word = 0;
  while (word == 0) word = static_cast<std::uint32_t>(split_mix(x) >> 32U);
  return word;
}

// Lanes and uses get far apart starting points of SplitMix64.
std::uint64_t origin(std::uint32_t seed, std::uint32_t use, std::size_t lane) {
  return (std::uint64_t{seed} << 32U) | (std::uint64_t{use} << 16U) | lane;
}

void fill(Xorwow& state, std::uint64_t x) {
  for (std::uint32_t& word : state.words) word = nonzero_word(x);
}

}  // namespace

std::uint32_t next_lfsr(std::uint32_t& state) {
  state = kLeap[0][state & 0xffU] ^ kLeap[1][(state >> 8U) & 0xffU] ^
          kLeap[2][(state >> 16U) & 0xffU] ^ kLeap[3][state >> 24U];
  return state;
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
  fill(state, origin(seed, kUse + set, lane));
}

void seed_vector(CoreState& state, std::uint32_t seed) {
  for (std::size_t lane = 0; lane < kPartitions; ++lane) {
    std::uint64_t x = origin(seed, 0, lane);
    state.vector_lfsr[lane] = nonzero_word(x);
    for (std::uint32_t i = 0; i < 4; ++i) {
      fill(state.vector_xorwow[lane][i], origin(seed, 1 + i, lane));
    }
  }
  state.vector_seeded = true;
}

void ensure_seeded(CoreState& state, Engine engine) {
  if (engine == Engine::kVector && !state.vector_seeded) seed_vector(state, 0);
  if (engine == Engine::kGpSimd && !state.gpsimd_seeded) {
    for (std::size_t lane = 0; lane < kPartitions; ++lane) {
      fill(state.gpsimd_xorwow[lane], origin(0, 5, lane));
    }
    state.gpsimd_seeded = true;
  }
}

void random_bits(EvalContext& ctx, Engine engine, int lane, std::uint32_t* out,
                 std::int64_t count) {
  CoreState& state = ctx.state();
  ensure_seeded(state, engine);
  const auto l = static_cast<std::size_t>(lane);
  if (engine == Engine::kGpSimd) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = next_xorwow(state.gpsimd_xorwow[l]);
  } else if (ctx.machine().generation >= Generation::kV4) {
    auto& states = state.vector_xorwow[l];
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = next_xorwow(states[static_cast<std::size_t>(i % 4)]);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = next_lfsr(state.vector_lfsr[l]);
  }
}

}  // namespace nkisim::isa
