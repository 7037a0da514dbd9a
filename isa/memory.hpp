// The bytes of a device: HBM shared by all cores, SBUF and PSUM per core. Every byte knows whether
// it was ever written.
#pragma once

#include <memory>
#include <vector>

#include "isa/program.hpp"

namespace nkisim::isa {

/// A lazily zeroed run of bytes with one "written" bit per byte.
class Region {
 public:
  explicit Region(std::int64_t bytes);
  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::int64_t size() const { return size_; }
  void mark_written(std::int64_t first, std::int64_t count);
  /// First byte in [first, first+count) never written, or -1.
  [[nodiscard]] std::int64_t find_unwritten(std::int64_t first, std::int64_t count) const;
  /// PSUM of generations that cannot accumulate onto what another engine wrote: remembers per byte
  /// whether the last write came from an engine other than the tensor engine.
  void mark_foreign(std::int64_t first, std::int64_t count, bool foreign);
  /// First byte in [first, first+count) last written by another engine, or -1.
  [[nodiscard]] std::int64_t find_foreign(std::int64_t first, std::int64_t count) const;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::int64_t size_;
  std::unique_ptr<std::byte, Free> data_;
  std::unique_ptr<std::uint64_t, Free> written_;
  std::unique_ptr<std::uint64_t, Free> foreign_;  // null until another engine writes
};

/// Where a tensor's rows live: byte `start` of `region`, rows `pitch` bytes apart.
struct Placement {
  Region* region = nullptr;
  std::int64_t start = 0;
  std::int64_t pitch = 0;  // on chip: bytes between partitions; HBM: 0
};

/// Memory of all cores of a program. On-chip tensors share one SBUF/PSUM per core at their
/// addresses, or (virtual addresses) each has a region of its own.
class Memory {
 public:
  explicit Memory(const Program& program);
  /// Start of `ref` (dynamic offsets not applied).
  [[nodiscard]] Placement place(const TensorRef& ref);
  /// All bytes of an HBM tensor, row-major.
  [[nodiscard]] Region& hbm(std::uint32_t tensor);
  /// Fills an HBM tensor and marks it written. `bytes` must have the tensor's size.
  void load(std::uint32_t tensor, std::span<const std::byte> bytes);
  /// Copy of a tensor's bytes, row-major, partitions first for on-chip tensors.
  [[nodiscard]] std::vector<std::byte> read(std::uint32_t tensor);
  /// The same into `out`, which must have the tensor's size.
  void read(std::uint32_t tensor, std::span<std::byte> out);
  /// Forgets the bytes of a tensor with a region of its own (HBM, virtual addresses), which nobody
  /// reads any more.
  void release(std::uint32_t tensor);

 private:
  Region& tensor_region(std::uint32_t tensor);
  const Program& program_;
  std::vector<std::unique_ptr<Region>> tensors_;      // HBM, and on chip with virtual addresses
  std::vector<std::unique_ptr<Region>> sbuf_, psum_;  // per core
};

}  // namespace nkisim::isa
