// Computes the tensor engine's matrix product: packs two matrices and multiplies tile by tile.

#include "isa/machine/gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "isa/base/clones.hpp"
#include "isa/host/team.hpp"
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

constexpr std::int64_t kWorthTeam = std::int64_t{1} << 21U;  // products of two numbers

// One side of the product: k rows of `count` values.
struct Side {
  MatmulOperand in;
  int count;
};

// Copies `Width` or fewer values and adds zeros: what the padding computes is never stored.
template <class Stored, int Width>
[[gnu::always_inline]] inline void pack_row(const std::byte* in, int used, float* out) {
  Stored values[Width];
  std::memcpy(values, in, static_cast<std::size_t>(used) * sizeof(Stored));
  if constexpr (sizeof(Stored) == sizeof(float)) {
    std::memcpy(out, values, static_cast<std::size_t>(used) * sizeof(float));
  } else {
    for (int i = 0; i < used; ++i) {
      out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(values[i]) << 16);
    }
  }
  for (int i = used; i < Width; ++i) out[i] = 0.0F;
}

// Floats from the start of a packed block to the next: two lines more than it has, as blocks are
// written side by side and would compete for a few sets of the caches at a power of two.
template <int Width>
std::size_t block_size(int k_size) {
  return static_cast<std::size_t>(std::max(k_size, 0)) * Width + 32;
}

// Copies columns `first` to `first + used` of all rows, cut into blocks of [k_size][Width]. Row by
// row, which is how the host reads ahead.
template <class Stored, int Width>
NKISIM_CLONES void pack(const Side& side, int first, int used, int k_size, float* out) {
  const std::byte* in = side.in.data + static_cast<std::ptrdiff_t>(sizeof(Stored)) * first;
  const std::size_t block = block_size<Width>(k_size);
  for (int k = 0; k < k_size; ++k, in += side.in.stride_bytes, out += Width) {
    const std::byte* from = in;
    float* to = out;
    int left = used;
    for (; left >= Width; left -= Width, from += Width * sizeof(Stored), to += block) {
      pack_row<Stored, Width>(from, Width, to);
    }
    if (left > 0) pack_row<Stored, Width>(from, left, to);
  }
}

template <int Width>
void pack_blocks(const Side& side, int first, int used, int k_size, float* out) {
  if (side.in.bf16) {
    pack<std::uint16_t, Width>(side, first, used, k_size, out);
  } else {
    pack<std::uint32_t, Width>(side, first, used, k_size, out);
  }
}

// Every NaN becomes the same bit pattern, since which operand's payload survives is up to the
// compiler.
[[gnu::always_inline]] inline void store_value(float& to, float value, bool accumulate) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float sum = accumulate ? to + value : value;
  to = sum != sum ? kNan : sum;
}

struct Destination {
  float* data;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};

// A whole tile is the common case, with loops of a known length.
template <bool Accumulate>
NKISIM_CLONES void store_tile(const float* __restrict tile, const Destination& out, int rows,
                              int columns) {
  for (int r = 0; r < rows; ++r) {
    const float* __restrict from = tile + r * kTileColumns;
    float* __restrict to = out.data + r * out.row_stride;
    if (out.column_stride != 1) {
      for (int c = 0; c < columns; ++c) store_value(to[c * out.column_stride], from[c], Accumulate);
    } else if (columns == kTileColumns) {
      for (int c = 0; c < kTileColumns; ++c) store_value(to[c], from[c], Accumulate);
    } else {
      for (int c = 0; c < columns; ++c) store_value(to[c], from[c], Accumulate);
    }
  }
}

// out[r][c] = sum_k left[k][r] * right[k][c], tile by tile.
void multiply(TileKernel kernel, const Side& left, const Side& right, const Destination& out,
              int k_size, bool accumulate) {
  constexpr int kGroup = 16 * kTileColumns;  // packed together, within the second-level cache
  const auto blocks = [](int count, int width) {
    return static_cast<std::size_t>((count + width - 1) / width);
  };
  const std::size_t block = block_size<kTileRows>(k_size), strip = block_size<kTileColumns>(k_size);
  const Buffer rows = make_buffer(block * blocks(left.count, kTileRows));
  const Buffer columns = make_buffer(strip * blocks(std::min(right.count, kGroup), kTileColumns));
  pack_blocks<kTileRows>(left, 0, left.count, k_size, rows.get());
  const auto store = accumulate ? store_tile<true> : store_tile<false>;
  for (int c = 0; c < right.count; c += kTileColumns) {
    if (c % kGroup == 0) {
      pack_blocks<kTileColumns>(right, c, std::min(right.count - c, kGroup), k_size, columns.get());
    }
    const float* right_at =
        columns.get() + strip * static_cast<std::size_t>(c % kGroup / kTileColumns);
    for (int r = 0; r < left.count; r += kTileRows) {
      alignas(64) std::array<float, kTileSize> tile;
      float* corner = out.data + r * out.row_stride + c * out.column_stride;
      for (int i = 0; i < kTileRows && r + i < left.count; ++i) {  // each in a page of its own
        __builtin_prefetch(corner + i * out.row_stride, 1);
        __builtin_prefetch(corner + i * out.row_stride + 16, 1);
      }
      kernel(rows.get() + block * static_cast<std::size_t>(r / kTileRows), right_at, k_size,
             tile.data());
      store(tile.data(), {corner, out.row_stride, out.column_stride},
            std::min(kTileRows, left.count - r), std::min(kTileColumns, right.count - c));
    }
  }
}

}  // namespace

void matmul_at(SimdLevel level, const MatmulOperand& stationary, const MatmulOperand& moving,
               float* out, std::ptrdiff_t out_stride, int k_size, int m_size, int n_size,
               bool accumulate, Products products) {
  if (m_size <= 0 || n_size <= 0) return;
  const Side left{stationary, m_size};
  const Side right{moving, n_size};
  const TileKernel kernel = tile_kernel(level, products);
  // A tile is wider than high; products commute, so a narrow result is computed transposed.
  if (n_size < m_size && n_size <= kTileColumns / 2) {
    multiply(kernel, right, left, {out, 1, out_stride}, k_size, accumulate);
  } else {
    multiply(kernel, left, right, {out, out_stride, 1}, k_size, accumulate);
  }
}

void matmul(const MatmulOperand& stationary, const MatmulOperand& moving, float* out,
            std::ptrdiff_t out_stride, int k_size, int m_size, int n_size, bool accumulate,
            Products products) {
  const SimdLevel level = host_simd_level();
  const std::int64_t work = std::int64_t{k_size} * m_size * n_size;
  const int parts = work < kWorthTeam ? 1 : std::min(host::team_size(), n_size / kTileColumns);
  if (parts <= 1) {
    matmul_at(level, stationary, moving, out, out_stride, k_size, m_size, n_size, accumulate,
              products);
    return;
  }
  // Columns of the result, each computed as by one thread.
  const int width = (n_size / kTileColumns + parts - 1) / parts * kTileColumns;
  host::in_team((n_size + width - 1) / width, [&](int part) {
    const int first = part * width;
    MatmulOperand columns = moving;
    columns.data += first * (moving.bf16 ? sizeof(std::uint16_t) : sizeof(float));
    matmul_at(level, stationary, columns, out + first, out_stride, k_size, m_size,
              std::min(width, n_size - first), accumulate, products);
  });
}

}  // namespace nkisim::isa
