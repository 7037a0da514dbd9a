// Declares the code that the tensor engine's instructions share: array tiles, parts and the
// bit-exact transpose.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

inline constexpr int kArrayRows = 128;
inline constexpr int kArrayColumns = 128;

/// The tile of the 128 x 128 array that an instruction runs on.
struct ArrayTile {
  std::int64_t row_start = 0, column_start = 0;
  std::int64_t rows = kArrayRows, columns = kArrayColumns;
  [[nodiscard]] bool tiled() const { return rows != kArrayRows || columns != kArrayColumns; }
};
/// Reads and checks tile_position and tile_size (both or neither; sizes 128, 64, and 32 from v3 on;
/// positions multiples of the size inside the array).
[[nodiscard]] ArrayTile array_tile(const Inst& inst, int position_param, int size_param,
                                   const Machine& machine);

/// Rules of a product with an indirect operand: no tile of the array, and the index of a scattered
/// dst starts where stationary does.
void check_indirect_product(const TensorRef& dst, const TensorRef& stationary,
                            const ArrayTile& tile);

/// The two parts of one pass over the array.
struct Pass {
  const TensorRef* stationary = nullptr;
  const TensorRef* moving = nullptr;  // null: the identity, which is not an operand
  const TensorRef* dst = nullptr;
  std::uint32_t load_operands = 0, multiply_operands = 0;  // bits of the op's parameters
  std::int64_t rows = 0, columns = 0, elements = 0;        // K, M, streamed columns
  std::int64_t flops = 0;
  std::uint32_t features = 0;
  ArrayTile tile;
  Opcode multiply = Opcode::kMATMUL;
  bool accumulate = false;
};
/// LDWEIGHTS on the load row, then MATMUL on the multiply row; bytes from the operands. On an array
/// smaller than the product, both once for each block of rows and columns that the array holds.
void add_pass(const Pass& pass, const Machine& machine, Expansion& out);

/// As check_bank, for an output whose address is known only at run time. Call from eval.
void check_dynamic_bank(const TensorRef& dst, OpContext& ctx);
/// Fails if `dst` was last written by another engine (before v4) and is to be accumulated onto.
void check_can_accumulate(const TensorRef& dst, OpContext& ctx);

/// dst[m][source[m-column n]] moves bits: dst[m, n] = stationary[k(n), m], where k(n) < 0 gives
/// zero. Same-size elements move untouched, fp8 into 16 bits is zero-extended, and a 32-bit float
/// destination of a 16- or 8-bit source receives its exact value.
void store_transposed(const TensorRef& dst, const TensorRef& stationary,
                      const std::vector<std::int64_t>& source_rows, OpContext& ctx);
/// Dtypes the destination of a bit-exact transpose of `data` may have; fails otherwise.
void check_transpose_dst(const TensorRef& data, const TensorRef& dst);

}  // namespace nkisim::isa
