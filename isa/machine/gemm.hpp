// Computes the matrix product of the tensor engine's systolic array, with the same bits on every
// host.
#pragma once

#include <array>
#include <cstddef>

namespace nkisim::isa {

/// Rounding of the products of the two operands before they are added.
enum class Products : unsigned char {
  kRounded,  // each product is rounded to FP32, then added (FP32 operands)
  kExact,    // the product enters the sum unrounded: one rounding per addition. Required: at most
             // 12 significant bits per operand (bf16, fp16, tf32, fp8, small integers). Same result
             // as kRounded unless a product leaves the FP32 range; faster, it may use FMA.
};

/// One operand as it lies in memory: a row of values for each k, FP32 or bf16, which are widened on
/// the way. Rows may begin anywhere.
struct MatmulOperand {
  const std::byte* data;
  std::ptrdiff_t stride_bytes;  // from one row to the next
  bool bf16 = false;
};
[[nodiscard]] inline MatmulOperand fp32_rows(const float* data, std::ptrdiff_t stride) {
  return {reinterpret_cast<const std::byte*>(data),
          stride * static_cast<std::ptrdiff_t>(sizeof(float))};
}

/// out[m][n] = (accumulate ? out[m][n] : 0) + sum_k stationary[k][m] * moving[k][n].
/// The sum starts at 0, adds k = 0..K-1 strictly in order in FP32, and is then added to `out`
/// (the order inside the hardware array is unspecified; this is ours). `out_stride` is in elements.
/// A NaN result is the canonical quiet NaN. `out` may not overlap the operands.
void matmul(const MatmulOperand& stationary, const MatmulOperand& moving, float* out,
            std::ptrdiff_t out_stride, int k_size, int m_size, int n_size, bool accumulate,
            Products products = Products::kRounded);

/// The instruction sets `matmul` has kernels for; results are the same.
enum class SimdLevel : unsigned char { kPortable, kNeon, kAvx2, kAvx512 };
inline constexpr std::array kSimdLevels = {SimdLevel::kPortable, SimdLevel::kNeon, SimdLevel::kAvx2,
                                           SimdLevel::kAvx512};
[[nodiscard]] bool host_has(SimdLevel level);
/// The best level this host can run.
[[nodiscard]] SimdLevel host_simd_level();
/// `matmul` with a given level, which the host must have (tests compare levels).
void matmul_at(SimdLevel level, const MatmulOperand& stationary, const MatmulOperand& moving,
               float* out, std::ptrdiff_t out_stride, int k_size, int m_size, int n_size,
               bool accumulate, Products products);

}  // namespace nkisim::isa
