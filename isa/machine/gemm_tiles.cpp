// Multiplies one tile of a matrix product with the vector instructions of the host.

#include "isa/machine/gemm_tiles.hpp"

#include <algorithm>
#include <cassert>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace nkisim::isa {
namespace {

// Four lanes, which every vector unit has (SSE2, NEON, SIMD128); the compiler splits them
// elsewhere.
using Lanes = float __attribute__((vector_size(16)));

Lanes load(const float* at) {
  Lanes lanes;
  __builtin_memcpy(&lanes, at, sizeof lanes);
  return lanes;
}

// Four rows by 8 columns fill half of SSE2's registers. Operators alone: never contracted.
void tile_rounded(const float* rows, const float* columns, int k_size, float* tile) {
  for (int part = 0; part < 8; ++part) {
    const float* left_at = rows + (part / 4) * 4;
    const float* right_at = columns + (part % 4) * 8;
    float* out = tile + (part / 4) * 4 * kTileColumns + (part % 4) * 8;
    Lanes sum[4][2] = {};
    for (int k = 0; k < k_size; ++k, left_at += kTileRows, right_at += kTileColumns) {
      const Lanes right[2] = {load(right_at), load(right_at + 4)};
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        sum[m][0] += left_at[m] * right[0];
        sum[m][1] += left_at[m] * right[1];
      }
    }
    for (int m = 0; m < 4; ++m) {
      __builtin_memcpy(out + m * kTileColumns, sum[m], sizeof sum[m]);
    }
  }
}

// FMA for hosts without it: in double the product is exact, and rounding the sum first to 53 and
// then to 24 bits equals rounding once, since 53 >= 2 * 24 + 2.
void tile_exact(const float* rows, const float* columns, int k_size, float* tile) {
  std::fill_n(tile, kTileSize, 0.0F);
  for (int k = 0; k < k_size; ++k, rows += kTileRows, columns += kTileColumns) {
    for (int m = 0; m < kTileRows; ++m) {
      const double left = static_cast<double>(rows[m]);
      float* sum = tile + m * kTileColumns;
      for (int n = 0; n < kTileColumns; ++n) {
        const double product = left * static_cast<double>(columns[n]);
        sum[n] = static_cast<float>(static_cast<double>(sum[n]) + product);
      }
    }
  }
}

#if defined(__x86_64__)

template <bool Exact>
__attribute__((target("avx512f"))) void tile_avx512(const float* rows, const float* columns,
                                                    int k_size, float* tile) {
  __m512 sum[kTileRows][2];
  for (auto& row : sum) row[0] = row[1] = _mm512_setzero_ps();
  for (int k = 0; k < k_size; ++k, rows += kTileRows, columns += kTileColumns) {
    const __m512 right[2] = {_mm512_load_ps(columns), _mm512_load_ps(columns + 16)};
#pragma GCC unroll 8
    for (int m = 0; m < kTileRows; ++m) {
      const __m512 left = _mm512_set1_ps(rows[m]);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        sum[m][v] = Exact ? _mm512_fmadd_ps(left, right[v], sum[m][v])
                          : _mm512_add_ps(sum[m][v], _mm512_mul_ps(left, right[v]));
      }
    }
  }
  for (int m = 0; m < kTileRows; ++m) {
    _mm512_store_ps(tile + m * kTileColumns, sum[m][0]);
    _mm512_store_ps(tile + m * kTileColumns + 16, sum[m][1]);
  }
}

// Four rows by 16 columns fill half of AVX2's registers, with two sums in flight per port.
template <bool Exact>
__attribute__((target("avx2,fma"))) void tile_avx2(const float* rows, const float* columns,
                                                   int k_size, float* tile) {
  for (int part = 0; part < 4; ++part) {
    const float* left_at = rows + (part / 2) * 4;
    const float* right_at = columns + (part % 2) * 16;
    float* out = tile + (part / 2) * 4 * kTileColumns + (part % 2) * 16;
    __m256 sum[4][2];
    for (auto& row : sum) row[0] = row[1] = _mm256_setzero_ps();
    for (int k = 0; k < k_size; ++k, left_at += kTileRows, right_at += kTileColumns) {
      const __m256 right[2] = {_mm256_load_ps(right_at), _mm256_load_ps(right_at + 8)};
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        const __m256 left = _mm256_broadcast_ss(left_at + m);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          sum[m][v] = Exact ? _mm256_fmadd_ps(left, right[v], sum[m][v])
                            : _mm256_add_ps(sum[m][v], _mm256_mul_ps(left, right[v]));
        }
      }
    }
    for (int m = 0; m < 4; ++m) {
      _mm256_store_ps(out + m * kTileColumns, sum[m][0]);
      _mm256_store_ps(out + m * kTileColumns + 8, sum[m][1]);
    }
  }
}

#elif defined(__aarch64__)

// Eight rows by 8 columns: 16 of 32 registers, four sums in flight per port.
void tile_neon_exact(const float* rows, const float* columns, int k_size, float* tile) {
  for (int part = 0; part < 4; ++part) {
    const float* left_at = rows;
    const float* right_at = columns + part * 8;
    float* out = tile + part * 8;
    float32x4_t sum[kTileRows][2] = {};
    for (int k = 0; k < k_size; ++k, left_at += kTileRows, right_at += kTileColumns) {
      const float32x4_t right[2] = {vld1q_f32(right_at), vld1q_f32(right_at + 4)};
#pragma GCC unroll 8
      for (int m = 0; m < kTileRows; ++m) {
        sum[m][0] = vfmaq_n_f32(sum[m][0], right[0], left_at[m]);
        sum[m][1] = vfmaq_n_f32(sum[m][1], right[1], left_at[m]);
      }
    }
    for (int m = 0; m < kTileRows; ++m) {
      vst1q_f32(out + m * kTileColumns, sum[m][0]);
      vst1q_f32(out + m * kTileColumns + 4, sum[m][1]);
    }
  }
}

#endif

}  // namespace

bool host_has(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPortable:
      return true;
#if defined(__x86_64__)
    case SimdLevel::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case SimdLevel::kAvx512:
      return __builtin_cpu_supports("avx512f");
#elif defined(__aarch64__)
    case SimdLevel::kNeon:
      return true;
#endif
    default:
      return false;
  }
}

SimdLevel host_simd_level() {
  static const SimdLevel kBest = *std::find_if(kSimdLevels.rbegin(), kSimdLevels.rend(), host_has);
  return kBest;
}

TileKernel tile_kernel(SimdLevel level, Products products) {
  assert(host_has(level));
  const bool exact = products == Products::kExact;
  switch (level) {
#if defined(__x86_64__)
    case SimdLevel::kAvx512:
      return exact ? tile_avx512<true> : tile_avx512<false>;
    case SimdLevel::kAvx2:
      return exact ? tile_avx2<true> : tile_avx2<false>;
#elif defined(__aarch64__)
    case SimdLevel::kNeon:
      return exact ? tile_neon_exact : tile_rounded;
#endif
    default:
      return exact ? tile_exact : tile_rounded;
  }
}

}  // namespace nkisim::isa
