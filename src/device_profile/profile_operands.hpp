// Parses the operand text of an instruction in a device profile: semaphores, access patterns,
// modes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/base/dtype.hpp"
#include "isa/base/inst.hpp"

namespace nkisim {

/// A wait or update on a semaphore. `runtime`: written with a $, so not the kernel's own.
struct ProfileWait {
  isa::SemaphoreWait wait;
  std::string owner;  // who raises it: an engine or a DMA queue
  bool runtime = false;
};
struct ProfilePost {
  isa::SemaphorePost post;
  bool runtime = false;
};

/// "src=bfloat16@0x37e00[1,0,0][128,1,1]": steps and counts innermost first.
struct ProfileTensor {
  enum class Use : std::uint8_t { kRead, kWrite, kPointer };
  Use use = Use::kRead;
  std::optional<isa::Dtype> dtype;
  std::uint64_t address = 0;
  std::vector<std::int64_t> steps, counts;
  [[nodiscard]] std::int64_t elements() const;
};

/// One side of a DMA: elements of `element_bytes` at byte steps.
struct ProfileDmaSide {
  bool given = false;
  std::optional<std::uint64_t> address;  // absent: `offset` into table entry `table`
  std::int64_t table = 0, offset = 0;
  std::int64_t element_bytes = 0;
  std::vector<std::int64_t> steps, counts;
  [[nodiscard]] std::int64_t elements() const;
  /// True if an element and the next one adjoin.
  [[nodiscard]] bool adjacent() const;
};

struct ProfileDma {
  ProfileDmaSide src, dst;
  std::int32_t semaphore = -1, increment = 0;
  bool compute = false;  // casts or combines
};

struct ProfileOperands {
  std::vector<ProfileWait> waits;
  std::vector<ProfilePost> posts;
  std::vector<ProfileTensor> tensors;
  ProfileDma dma;
  std::optional<std::int64_t> rows, columns, channels, acc_flags;
  std::string fp32_mode, function, mode;
  bool transpose = false;
  bool events = false;  // waits for or sets runtime events
  std::string rest;     // what was not understood or has no effect on time
};

/// Never fails: what it does not understand goes to `rest`.
[[nodiscard]] ProfileOperands parse_operands(std::string_view text);

}  // namespace nkisim
