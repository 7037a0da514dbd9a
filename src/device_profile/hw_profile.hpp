// Declares as plain records the tables of a device profile (neuron-profile view --output-format
// json) that nkisim uses. Files of other profiler versions may lack fields or call them otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isa/base/part.hpp"

namespace nkisim {

/// One executed instruction. Times are in nanoseconds.
struct HwInstruction {
  std::size_t record = 0;  // index in the file's instruction table, for messages
  std::string id, name, opcode, operands, subgraph, location;
  std::string compiler_opcode, compiler_operands, performance_mode;
  isa::Unit unit = isa::Unit::kSync;
  int core = 0;
  std::int64_t pc = -1;
  bool from_compiler = false;  // has a compiler_pc: part of the kernel, not of the runtime
  bool transpose = false;      // instruction_type TRANSPOSE
  double start = 0, duration = 0;
  std::optional<double> wait;
  std::int64_t psum_write_bytes = 0;  // per partition, as the profiler counts it
  std::int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;
};

/// One DMA packet.
struct HwPacket {
  std::size_t record = 0;
  std::string queue, kind, subgraph;  // queue: name if the file has it, else its number
  int core = 0;
  int engine = 0;           // 0..15 within the core's group of engines
  std::int64_t index = -1;  // order within queue and engine
  double start = 0, duration = 0;
  std::int64_t bytes = 0;
  int semaphore = -1;
  bool collective = false;
};

/// A span of the PE array's utilisation limit: `allowed` of `of`.
struct HwThrottle {
  double start = 0, duration = 0;
  int allowed = 0, of = 0;
};

struct HwSemaphoreUpdate {
  std::string subgraph;
  int core = 0;
  int semaphore = 0;
  std::int64_t value = 0;
  double time = 0;
};

struct HwProfile {
  std::string file;
  std::vector<HwInstruction> instructions;
  std::vector<HwPacket> packets;
  std::vector<HwThrottle> throttle;
  std::vector<HwSemaphoreUpdate> semaphores;
  std::string instance_type;
  double total_time = 0;           // ns, of the whole profile; 0 if the file does not say
  std::vector<std::string> cores;  // subgraph of each core index
  std::vector<std::string> warnings;

  /// "trn1", "inf2", "trn2" or "trn3" by the instance type; empty if unknown.
  [[nodiscard]] std::string target() const;
};

/// Reads a profile, plain or gzip. What cannot be used is left out with a warning; a file that is
/// not JSON, has no instruction table or a record without time or engine is an isa::Error that
/// names the record.
[[nodiscard]] HwProfile read_hw_profile(const std::string& path);
/// The same of a file that errors call `name`.
[[nodiscard]] HwProfile read_hw_profile(const std::string& path, const std::string& name);
/// The same from memory; `name` stands for the file in messages.
[[nodiscard]] HwProfile read_hw_profile_text(std::string_view bytes, const std::string& name);

/// The key of an instruction in labels of imported traces and in comparisons.
[[nodiscard]] std::string instruction_key(const HwInstruction& inst);

}  // namespace nkisim
