#include "isa/machine/gemm.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <memory>

namespace nkisim::isa {
namespace {

constexpr int kTileRows = 8;      // m per micro-kernel
constexpr int kTileColumns = 32;  // n per micro-kernel
constexpr int kTileSize = kTileRows * kTileColumns;

// Sums one tile: tile[m][n] = sum_k rows[k][m] * columns[k][n] for kTileRows x kTileColumns, with
// `rows` and `columns` packed contiguously along k. `tile` is contiguous and 64-byte aligned.
using TileKernel = void (*)(const float* rows, const float* columns, int k_size, float* tile);

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

void tile_sse2(const float* rows, const float* columns, int k_size, float* tile) {
  for (int part = 0; part < 8; ++part) {
    const float* left_at = rows + (part / 4) * 4;
    const float* right_at = columns + (part % 4) * 8;
    float* out = tile + (part / 4) * 4 * kTileColumns + (part % 4) * 8;
    __m128 sum[4][2];
    for (auto& row : sum) row[0] = row[1] = _mm_setzero_ps();
    for (int k = 0; k < k_size; ++k, left_at += kTileRows, right_at += kTileColumns) {
      const __m128 right[2] = {_mm_load_ps(right_at), _mm_load_ps(right_at + 4)};
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        const __m128 left = _mm_set1_ps(left_at[m]);
        sum[m][0] = _mm_add_ps(sum[m][0], _mm_mul_ps(left, right[0]));
        sum[m][1] = _mm_add_ps(sum[m][1], _mm_mul_ps(left, right[1]));
      }
    }
    for (int m = 0; m < 4; ++m) {
      _mm_store_ps(out + m * kTileColumns, sum[m][0]);
      _mm_store_ps(out + m * kTileColumns + 4, sum[m][1]);
    }
  }
}

// FMA for hosts without it: in double the product is exact, and rounding the sum first to 53 and
// then to 24 bits equals rounding once, since 53 >= 2 * 24 + 2.
void tile_sse2_exact(const float* rows, const float* columns, int k_size, float* tile) {
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

TileKernel kernel_for(SimdLevel level, Products products) {
  const bool exact = products == Products::kExact;
  switch (level) {
    case SimdLevel::kAvx512:
      return exact ? tile_avx512<true> : tile_avx512<false>;
    case SimdLevel::kAvx2:
      return exact ? tile_avx2<true> : tile_avx2<false>;
    default:
      return exact ? tile_sse2_exact : tile_sse2;
  }
}

struct AlignedDelete {
  void operator()(float* p) const { operator delete[](p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<float[], AlignedDelete>;

Buffer make_buffer(std::size_t count) {
  return Buffer(static_cast<float*>(operator new[](count * sizeof(float), std::align_val_t{64})));
}

// Copies a [k_size][used] block, zero-padded to [k_size][Width]: what the padding computes is
// never stored, and packed blocks stay in the first-level cache.
template <int Width>
void pack(const float* in, std::ptrdiff_t stride, int k_size, int used, float* out) {
  for (int k = 0; k < k_size; ++k, in += stride, out += Width) {
    if (used == Width) {
      std::copy_n(in, Width, out);
    } else {
      std::fill(std::copy_n(in, used, out), out + Width, 0.0F);
    }
  }
}

// Every NaN becomes the same bit pattern, since which operand's payload survives is up to the
// compiler.
void store_value(float& to, float value, bool accumulate) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float sum = accumulate ? to + value : value;
  to = sum != sum ? kNan : sum;
}

// One side of the product: k rows of `count` values.
struct Side {
  const float* data;
  std::ptrdiff_t stride;
  int count;
};

struct Destination {
  float* data;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};

void store_tile(const float* __restrict tile, const Destination& out, int rows, int columns,
                bool accumulate) {
  for (int r = 0; r < rows; ++r) {
    const float* __restrict from = tile + r * kTileColumns;
    float* __restrict to = out.data + r * out.row_stride;
    if (out.column_stride == 1) {
      for (int c = 0; c < columns; ++c) store_value(to[c], from[c], accumulate);
    } else {
      for (int c = 0; c < columns; ++c) store_value(to[c * out.column_stride], from[c], accumulate);
    }
  }
}

// out[r][c] = sum_k left[k][r] * right[k][c], tile by tile.
void multiply(TileKernel kernel, const Side& left, const Side& right, const Destination& out,
              int k_size, bool accumulate) {
  const int row_blocks = (left.count + kTileRows - 1) / kTileRows;
  const auto depth = static_cast<std::size_t>(std::max(k_size, 0));
  const std::size_t block = depth * kTileRows;
  const Buffer rows = make_buffer(block * static_cast<std::size_t>(row_blocks) + 1);
  const Buffer columns = make_buffer(depth * kTileColumns + 1);
  const auto rows_used = [&](int b) { return std::min(kTileRows, left.count - b * kTileRows); };
  for (int b = 0; b < row_blocks; ++b) {
    pack<kTileRows>(left.data + b * kTileRows, left.stride, k_size, rows_used(b),
                    rows.get() + static_cast<std::size_t>(b) * block);
  }
  for (int c = 0; c < right.count; c += kTileColumns) {
    const int columns_used = std::min(kTileColumns, right.count - c);
    pack<kTileColumns>(right.data + c, right.stride, k_size, columns_used, columns.get());
    for (int b = 0; b < row_blocks; ++b) {
      alignas(64) std::array<float, kTileSize> tile;
      kernel(rows.get() + static_cast<std::size_t>(b) * block, columns.get(), k_size, tile.data());
      float* corner = out.data + b * kTileRows * out.row_stride + c * out.column_stride;
      store_tile(tile.data(), {corner, out.row_stride, out.column_stride}, rows_used(b),
                 columns_used, accumulate);
    }
  }
}

}  // namespace

SimdLevel host_simd_level() {
  static const SimdLevel kLevel = [] {
    if (__builtin_cpu_supports("avx512f")) return SimdLevel::kAvx512;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 ? SimdLevel::kAvx2 : SimdLevel::kSse2;
  }();
  return kLevel;
}

void matmul_at(SimdLevel level, const float* stationary, std::ptrdiff_t stationary_stride,
               const float* moving, std::ptrdiff_t moving_stride, float* out,
               std::ptrdiff_t out_stride, int k_size, int m_size, int n_size, bool accumulate,
               Products products) {
  assert(level <= host_simd_level());
  if (m_size <= 0 || n_size <= 0) return;
  const Side left{stationary, stationary_stride, m_size};
  const Side right{moving, moving_stride, n_size};
  const TileKernel kernel = kernel_for(level, products);
  // A tile is wider than high; products commute, so a narrow result is computed transposed.
  if (n_size < m_size && n_size <= kTileColumns / 2) {
    multiply(kernel, right, left, {out, 1, out_stride}, k_size, accumulate);
  } else {
    multiply(kernel, left, right, {out, out_stride, 1}, k_size, accumulate);
  }
}

void matmul(const float* stationary, std::ptrdiff_t stationary_stride, const float* moving,
            std::ptrdiff_t moving_stride, float* out, std::ptrdiff_t out_stride, int k_size,
            int m_size, int n_size, bool accumulate, Products products) {
  matmul_at(host_simd_level(), stationary, stationary_stride, moving, moving_stride, out,
            out_stride, k_size, m_size, n_size, accumulate, products);
}

}  // namespace nkisim::isa
