#include "isa/machine/gemm.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>

#include "isa/machine/gemm_tiles.hpp"

namespace nkisim::isa {
namespace {

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

void matmul_at(SimdLevel level, const float* stationary, std::ptrdiff_t stationary_stride,
               const float* moving, std::ptrdiff_t moving_stride, float* out,
               std::ptrdiff_t out_stride, int k_size, int m_size, int n_size, bool accumulate,
               Products products) {
  if (m_size <= 0 || n_size <= 0) return;
  const Side left{stationary, stationary_stride, m_size};
  const Side right{moving, moving_stride, n_size};
  const TileKernel kernel = tile_kernel(level, products);
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
