// Declares Part: one machine operation (such as LDWEIGHTS or MATMUL) of which an nki.isa
// instruction consists. A part holds quantities (elements, bytes, ...) and never cycles.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "isa/base/machine.hpp"
#include "isa/base/tensor.hpp"

namespace nkisim::isa {

/// Opcodes under the profiler's names (isa/base/opcodes.def). Programs may add their own after
/// these.
enum class Opcode : std::uint16_t {
#define NKISIM_OPCODE(opcode_name) k##opcode_name,
#include "isa/base/opcodes.def"
#undef NKISIM_OPCODE
  kCount,
};
/// Name of a built-in opcode ("MATMUL"); Program::opcode_name also knows the program's own.
[[nodiscard]] std::string_view name(Opcode opcode);

/// The unit that executes a part. The tensor engine has two rows, as in the profiler: weights are
/// loaded (TensorE) while the previous multiply streams (TensorMatrixE).
enum class Unit : std::uint8_t { kTensor, kTensorMatrix, kVector, kScalar, kGpSimd, kSync };
inline constexpr int kUnitCount = 6;
[[nodiscard]] std::string_view name(Unit unit);  // "Tensor", "TensorMatrix", "Vector", ...
[[nodiscard]] Engine engine_of(Unit unit);
[[nodiscard]] Unit unit_of(Engine engine);  // kTensor for the tensor engine

/// Facts about a part that a cost rule in a config may ask for (`when`), one bit each.
enum Feature : std::uint32_t {
  kFeatSrcPsum = 1U << 0U,        // some tensor input is in PSUM
  kFeatDstPsum = 1U << 1U,        // some tensor output is in PSUM
  kFeatTwoInputs = 1U << 2U,      // two full-size tensor inputs
  kFeatTwoSbufInputs = 1U << 3U,  // both of them in SBUF
  kFeatAll16Bit = 1U << 4U,       // every full-size operand is bf16 or fp16
  kFeatAll8Or16Bit = 1U << 5U,    // every full-size operand is bf16, fp16 or fp8
  kFeatContiguous = 1U << 6U,     // innermost steps of all full-size operands are 1 (or 0 elements)
  kFeatWideStride = 1U << 7U,     // some innermost step is over 16 bytes
  kFeatDynamic = 1U << 8U,        // some address is known only at run time
  kFeatFp32 = 1U << 9U,           // matmul operand pass in FP32 (HIGH or LOW)
  kFeatFp8 = 1U << 10U,           // matmul operands are fp8
  kFeatTranspose = 1U << 11U,     // transpose rather than arithmetic
  kFeatDoubleRow = 1U << 12U,     // fp8 double-row mode
  kFeatMx = 1U << 13U,
  kFeatZero = 1U << 14U,          // memset of zero
  kFeatOneZero = 1U << 15U,       // matmul operand declared to hold only 0 and 1
  kFeatBf16 = 1U << 16U,          // every full-size operand is exactly bf16
  kFeatReduceAddMax = 1U << 17U,  // reduction with add or max
  kFeatAddMulSub = 1U << 18U,     // arithmetic op is add, subtract or multiply
  kFeatSubMul = 1U << 19U,        // scalar_tensor_tensor with (subtract, multiply)
  kFeatIndirect = 1U << 20U,      // gather or scatter through an index tensor
  kFeatFp32LowPass = 1U << 21U,   // the LOW of an FP32 matmul's two passes
  kFeatPointer = 1U << 22U,       // some scalar operand is a tensor of one column
  kFeatNoBias = 1U << 23U,        // an activation that reads no bias: copy without one
  kFeatScaleTile = 1U << 24U,     // an activation whose scale is a tile
  kFeatSilu = 1U << 25U,          // an activation's function is SiLU
  kFeat8Bit = 1U << 26U,          // some full-size operand has elements of one byte
  kFeatLoop = 1U << 27U,          // the branch that ends an iteration of a counted loop
};

/// A feature's name in configs, and the features in the order of their bits.
struct FeatureName {
  std::string_view name;
  Feature feature;
};
inline constexpr std::array<FeatureName, 28> kFeatureNames = {{
    {"src_psum", kFeatSrcPsum},
    {"dst_psum", kFeatDstPsum},
    {"two_inputs", kFeatTwoInputs},
    {"two_sbuf_inputs", kFeatTwoSbufInputs},
    {"all_16bit", kFeatAll16Bit},
    {"all_8_or_16bit", kFeatAll8Or16Bit},
    {"contiguous", kFeatContiguous},
    {"wide_stride", kFeatWideStride},
    {"dynamic", kFeatDynamic},
    {"fp32", kFeatFp32},
    {"fp8", kFeatFp8},
    {"transpose", kFeatTranspose},
    {"double_row", kFeatDoubleRow},
    {"mx", kFeatMx},
    {"zero", kFeatZero},
    {"onezero", kFeatOneZero},
    {"bf16", kFeatBf16},
    {"reduce_add_max", kFeatReduceAddMax},
    {"add_mul_sub", kFeatAddMulSub},
    {"sub_mul", kFeatSubMul},
    {"indirect", kFeatIndirect},
    {"fp32_low_pass", kFeatFp32LowPass},
    {"pointer", kFeatPointer},
    {"no_bias", kFeatNoBias},
    {"scale_tile", kFeatScaleTile},
    {"silu", kFeatSilu},
    {"8bit", kFeat8Bit},
    {"loop", kFeatLoop},
}};
/// The bit of a feature's name; none if it is unknown.
[[nodiscard]] constexpr std::optional<Feature> parse_feature(std::string_view text) {
  for (const FeatureName& known : kFeatureNames) {
    if (known.name == text) return known.feature;
  }
  return std::nullopt;
}

/// Quantities of one part. Elements are per partition; bytes are totals over partitions.
struct Part {
  Opcode opcode = Opcode{};
  Unit unit = Unit::kVector;
  std::uint32_t features = 0;
  Dtype dtype = Dtype::kFloat32;  // of the main input
  std::int32_t partitions = 0;
  std::int64_t elements = 0;  // N: elements per partition streamed (MATMUL: moving columns;
                              // LDWEIGHTS: stationary columns)
  std::int32_t rows = 0;      // PE rows (K) and columns (M) in use; 0 elsewhere
  std::int32_t columns = 0;
  std::int32_t row_start = 0;  // PE tile position
  std::int32_t column_start = 0;
  std::int64_t flops = 0;  // 2 * rows * columns * elements on the PE array, in each pass
  std::int64_t sbuf_read_bytes = 0, sbuf_write_bytes = 0;
  std::int64_t psum_read_bytes = 0, psum_write_bytes = 0;
  std::uint32_t operands = 0;   // parameters this part touches, bit i = parameter i; 0 = all
  std::uint32_t act_table = 0;  // ScalarE: table set that must be loaded; 0 = none needed
};

/// The producer of a DMA's descriptors.
enum class DgeMode : std::uint8_t { kUnknown, kSwdge, kHwdge, kNone };  // nki.isa.dge_mode values

/// Quantities of one DMA: `descriptors` contiguous pieces of `descriptor_bytes` (the last may be
/// shorter), spread over at most `lanes` engines.
struct DmaWork {
  DgeMode dge = DgeMode::kUnknown;
  Space src = Space::kHbm, dst = Space::kSbuf;
  std::int64_t bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t descriptor_bytes = 0;
  std::int64_t rows = 0;  // partitions (or leading rows) the transfer is cut along
  std::int32_t element_bytes = 0;
  bool transpose = false;
  bool compute = false;  // element-wise add or cast in flight
  bool indirect = false;
  bool scattered = false;       // to HBM: descriptors do not follow each other there
  bool dynamic = false;         // some address is known only at run time
  std::int64_t skipped = 0;     // further descriptors, of rows that run-time indices leave out
  bool uneven = false;          // a row's pieces lie apart on chip by no multiple of their length
  std::int64_t step_bytes = 0;  // from one of a row's descriptors to the next in the source
  std::uint8_t priority = 0;
};

/// Quantities of one collective, as one rank's core calls it.
struct CollectiveWork {
  std::int64_t src_bytes = 0;  // of all sources and all destinations
  std::int64_t dst_bytes = 0;
  int tensors = 0;  // destinations; of implicit permutes, channels
  Dtype dtype = Dtype::kFloat32;
  Space space = Space::kHbm;
};

/// The work of an op: its parts in issue order on one engine, and the transfer or the collective
/// that they start.
struct Expansion {
  std::vector<Part> parts;
  bool is_dma = false;
  bool is_collective = false;
  DmaWork dma;
  CollectiveWork collective;
  void clear() {
    parts.clear();
    is_dma = is_collective = false;
    dma = {};
    collective = {};
  }
};

}  // namespace nkisim::isa
