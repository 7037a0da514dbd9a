// Declares tensors, and the access patterns by which instructions address parts of them.
//
// On chip (SBUF, PSUM) an operand covers `partitions` consecutive partitions from `partition`, and
// every partition shares one free-dimension pattern. In HBM an operand is an N-dimensional pattern
// over flat bytes; its first dimension plays the part of the partition axis. Steps are in elements
// of the operand's dtype, outermost first, and may be zero (broadcast) or negative.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/dtype.hpp"

namespace nkisim::isa {

enum class Space : std::uint8_t { kHbm, kSbuf, kPsum };
[[nodiscard]] std::string_view name(Space space);  // "hbm", "sbuf", "psum"

/// The role of a tensor in the program. Inputs and constants are written before it starts.
enum class TensorRole : std::uint8_t { kInternal, kInput, kOutput, kInputOutput, kConstant };

/// A named piece of memory.
struct Tensor {
  std::string name;
  Space space = Space::kHbm;
  Dtype dtype = Dtype::kFloat32;
  TensorRole role = TensorRole::kInternal;
  std::uint8_t core = 0;  // owner of an on-chip tensor; HBM is shared
  bool written = false;   // some instruction writes it (kept by Program::append)
  bool fixed = false;     // on chip, virtual addresses: the kernel gave this address, it is final
  bool spill = false;     // HBM: the compiler's, for tiles that left SBUF
  std::vector<std::int64_t> shape;  // elements; on chip shape[0] is the partition dimension
  std::int64_t address = 0;     // on chip: byte offset inside a partition; HBM: flat byte address
  std::uint16_t partition = 0;  // on chip: first partition
  std::uint32_t file = 0, line = 0;  // where the kernel allocated it (as in SourceLoc)
  std::uint32_t born = 0;            // instructions recorded before the kernel allocated it
  [[nodiscard]] std::int64_t elements() const;
  /// Stands for the bytes of a core's SBUF or PSUM, whichever tensor wrote them ($sbuf0).
  [[nodiscard]] bool is_raw() const { return !name.empty() && name.front() == '$'; }
  /// Bytes per partition on chip, total bytes in HBM.
  [[nodiscard]] std::int64_t extent_bytes() const;
};

/// Elements that a tensor or an operand may have: more than the HBM of any chip holds.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 36U;

struct Dim {
  std::int64_t step = 1;  // elements
  std::int64_t num = 1;
  bool operator==(const Dim&) const = default;
};

/// The (free) dimensions of an operand, interned in a Program; compare by pointer.
struct Pattern {
  std::vector<Dim> dims;      // outermost first; on chip: free dimensions only
  std::int64_t elements = 1;  // product of num
  std::int64_t first = 0;     // lowest and highest element offset touched, relative to the start
  std::int64_t last = 0;
  bool contiguous = true;  // row-major, unit innermost step, no gaps
  [[nodiscard]] std::int64_t inner_step() const { return dims.empty() ? 1 : dims.back().step; }
};
[[nodiscard]] Pattern make_pattern(std::vector<Dim> dims);
/// Row-major pattern over `shape`.
[[nodiscard]] std::vector<Dim> row_major(const std::vector<std::int64_t>& shape);

struct TensorRef;

/// Partitions an index list of tensor indirection is dealt out to, round robin (nki.language
/// NkiTensor.indirect): 32 for the tensor engine, 16 for the others.
[[nodiscard]] constexpr std::int64_t index_group(bool tensor_engine) {
  return tensor_engine ? 32 : 16;
}

/// An address component known only at run time; several may be chained on one operand.
struct DynamicOffset {
  enum class Kind : std::uint8_t {
    kRegister,  // start += register * stride
    kScalar,    // start += (one element of `index`) * stride
    kVector,    // row i of dimension 0 is row index[i] of the tensor (HBM, DMA only)
    kIndirect,  // v4 tensor indirection: free column i is column index[i % group, i / group]
  };
  Kind kind = Kind::kRegister;
  std::uint16_t reg = 0;             // kRegister
  const TensorRef* index = nullptr;  // the others
  std::int64_t stride = 1;           // elements per unit of index
  std::int64_t limit = 0;            // indices must be in [0, limit); 0 = bounded by the tensor
  std::int64_t group = 0;            // kIndirect: as given; 0 = the engine's own (index_group)
  const DynamicOffset* next = nullptr;
};

/// index * stride, in elements: of an index of 64 bits no more than lies outside every tensor.
[[nodiscard]] constexpr std::int64_t strided(std::int64_t index, std::int64_t stride) {
  constexpr std::int64_t kFar = 16 * kMostElements;
  if (index == 0 || stride == 0) return 0;
  const bool far = index > kFar || index < -kFar ||
                   (index > 0 ? index : -index) > kFar / (stride > 0 ? stride : -stride);
  if (!far) return index * stride;
  return (index > 0) == (stride > 0) ? kFar : -kFar;
}

/// One operand: which bytes, seen as which dtype, in which order.
struct TensorRef {
  const Pattern* pattern = nullptr;
  const DynamicOffset* dynamic = nullptr;
  std::int64_t offset = 0;       // bytes from the tensor's start (within a partition on chip)
  std::uint32_t tensor = 0;      // index in Program::tensors()
  std::uint16_t partition = 0;   // on chip: physical first partition (tensor's own included)
  std::uint16_t partitions = 0;  // on chip: count; 0 in HBM
  Space space = Space::kHbm;
  Dtype dtype = Dtype::kFloat32;
  bool operator==(const TensorRef&) const = default;

  [[nodiscard]] bool on_chip() const { return space != Space::kHbm; }
  /// Rows: partitions on chip, first dimension in HBM (1 if it has fewer than two dimensions).
  [[nodiscard]] std::int64_t rows() const;
  /// Elements per row (the "N" of cost formulas).
  [[nodiscard]] std::int64_t columns() const;
  [[nodiscard]] std::int64_t elements() const { return rows() * columns(); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * size_bytes(dtype); }
  /// Logical shape: [partitions, nums...] on chip, nums in HBM.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
};

}  // namespace nkisim::isa
