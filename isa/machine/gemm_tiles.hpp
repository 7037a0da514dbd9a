// Declares the innermost loops of the matrix product, one for each instruction set of the host.
#pragma once

#include "isa/machine/gemm.hpp"

namespace nkisim::isa {

inline constexpr int kTileRows = 8;      // m per micro-kernel
inline constexpr int kTileColumns = 32;  // n per micro-kernel
inline constexpr int kTileSize = kTileRows * kTileColumns;

/// Sums one tile: tile[m][n] = sum_k rows[k][m] * columns[k][n] for kTileRows x kTileColumns, with
/// `rows` and `columns` packed contiguously along k. `columns` and `tile` are 64-byte aligned.
using TileKernel = void (*)(const float* rows, const float* columns, int k_size, float* tile);

/// The kernel for a level that the host has.
[[nodiscard]] TileKernel tile_kernel(SimdLevel level, Products products);

}  // namespace nkisim::isa
