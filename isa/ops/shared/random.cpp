// Implements the engines' random number generators: an LFSR and XORWOW.
#include "isa/ops/shared/random.hpp"

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

}  // namespace

std::uint32_t next_lfsr(std::uint32_t& state) {
  state = kLeap[0][state & 0xffU] ^ kLeap[1][(state >> 8U) & 0xffU] ^
          kLeap[2][(state >> 16U) & 0xffU] ^ kLeap[3][state >> 24U];
  return state;
}

void seed_vector(CoreState& state, std::uint32_t seed) {
  for (std::size_t lane = 0; lane < kPartitions; ++lane) {
    std::uint64_t x = seed_origin(seed, 0, lane);
    state.vector_lfsr[lane] = nonzero_word(x);
    for (std::uint32_t i = 0; i < 4; ++i) {
      fill(state.vector_xorwow[lane][i], seed_origin(seed, 1 + i, lane));
    }
  }
  state.vector_seeded = true;
}

void ensure_seeded(CoreState& state, Engine engine) {
  if (engine == Engine::kVector && !state.vector_seeded) seed_vector(state, 0);
  if (engine == Engine::kGpSimd && !state.gpsimd_seeded) {
    for (std::size_t lane = 0; lane < kPartitions; ++lane) {
      fill(state.gpsimd_xorwow[lane], seed_origin(0, 5, lane));
    }
    state.gpsimd_seeded = true;
  }
}

void random_bits(OpContext& ctx, Engine engine, int lane, std::uint32_t* out, std::int64_t count) {
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
