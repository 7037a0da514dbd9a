// Converts the memory addresses of a device profile to operands of a program.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "isa/program/program.hpp"
#include "src/device_profile/profile_operands.hpp"

namespace nkisim {

/// The place of a device's address.
struct DevicePlace {
  isa::Space space = isa::Space::kHbm;
  int partition = 0;        // on chip
  std::int64_t offset = 0;  // on chip: within the partition
};
/// An address as engine instructions print it (SBUF from 0, PSUM from 0x2000000).
[[nodiscard]] DevicePlace engine_place(std::uint64_t address);
/// An address as DMA instructions print it (on-chip memory from 0x802000000000).
[[nodiscard]] DevicePlace dma_place(const ProfileDmaSide& side);

/// Makes operands. HBM has no tensors in a profile, so touched ranges are declared as tensors:
/// call note() for every operand first, then declare(), then make().
class AddressMap {
 public:
  explicit AddressMap(isa::Program& program) : program_(program) {}
  void note(const ProfileDmaSide& side);
  void note(const ProfileTensor& tensor);
  void declare();

  /// Empty if the operand does not fit the machine (the caller reports it).
  [[nodiscard]] const isa::TensorRef* make(const ProfileTensor& tensor, isa::Dtype dtype,
                                           int partitions, int core);
  [[nodiscard]] const isa::TensorRef* make(const ProfileDmaSide& side, int core);

 private:
  // A memory of its own: -1 is HBM by address, others are table entries.
  using Region = std::int64_t;
  struct Range {
    std::int64_t first = 0, last = 0;  // bytes [first, last)
    std::uint32_t tensor = 0;
  };
  void note(Region region, std::int64_t start, std::int64_t low, std::int64_t high);
  [[nodiscard]] const Range* find(Region region, std::int64_t start) const;
  const isa::TensorRef* on_chip(const DevicePlace& place, isa::Dtype dtype, int partitions,
                                std::vector<isa::Dim> dims, int core);
  const isa::TensorRef* in_hbm(Region region, std::int64_t start, isa::Dtype dtype,
                               std::vector<isa::Dim> dims);

  isa::Program& program_;
  std::map<Region, std::vector<Range>> ranges_;
};

}  // namespace nkisim
