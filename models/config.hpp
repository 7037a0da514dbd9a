// Holds the machine description of a device (configs/*.json) as C++ structs: its rates and tables
// of rules.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa/base/part.hpp"
#include "models/collective/config.hpp"
#include "models/rates.hpp"

namespace nkisim::models {

/// The use that a part makes of its engine.
enum class PartKind : std::uint8_t {
  kPipe,        // streams through the data path; the sequencer goes on at once
  kSequencer,   // holds the sequencer until it ends
  kArray,       // PE array: weights load or multiply
  kDmaTrigger,  // starts a DMA
};

/// One row of the cost table. The first row that matches a part decides; `present` and `absent` are
/// isa::Feature masks, `dtypes` a mask of isa::Dtype bits (0 = any).
struct CostRule {
  std::string id = {};
  isa::Unit unit{};
  std::vector<std::string> opcodes = {};  // "*" matches every opcode
  std::uint32_t present = 0, absent = 0, dtypes = 0;
  PartKind kind = PartKind::kPipe;
  Fs fixed = 0;                   // pipeline latency around the stream
  double cycles_per_element = 0;  // streaming
  double fixed_cycles = 0;        // added to the stream
  double min_cycles = 0;          // least streaming time
  Fs overlap = 0;                 // the next instruction may start this long before the end
  Fs min_interval = 0;            // ... but not sooner after the start
  std::string mode = {};          // performance_mode label
  bool assumed = false;           // its fixed time or rate has no source
  bool documented = false;        // its rate is stated by the documentation
  /// The same with the defaults of its numbers that fewer than three measurements give; null: none.
  std::shared_ptr<const CostRule> otherwise = {};
};

/// A surcharge: every matching row applies on top of the deciding CostRule.
struct CostExtra {
  std::string id = {};
  isa::Unit unit{};
  std::vector<std::string> opcodes = {};
  std::uint32_t present = 0, absent = 0, dtypes = 0;
  Fs fixed = 0;
  double stream_factor = 1;     // times the streaming cycles
  double min_cycles = 0;        // least streaming time
  Fs min_interval = 0;          // as of CostRule
  double whole_gap_cycles = 0;  // shorter streams have their share of the gap behind them
  std::shared_ptr<const CostExtra> otherwise = {};  // as of CostRule
};

struct DmaConfig : DmaRates {
  std::shared_ptr<const DmaRates> otherwise = {};  // as of CostRule
  /// The mode of a transfer that asks for `mode`, triggered by `engine`.
  [[nodiscard]] isa::DgeMode resolve(isa::DgeMode mode, isa::Engine engine) const {
    return mode == isa::DgeMode::kUnknown ? default_mode.at(static_cast<std::size_t>(engine))
                                          : mode;
  }
  [[nodiscard]] const DgeConfig& dge(isa::DgeMode mode) const {
    return mode == isa::DgeMode::kHwdge   ? hardware
           : mode == isa::DgeMode::kSwdge ? software
                                          : fixed;
  }
};

/// Engines that cannot use a memory at the same time.
struct PortRule {
  isa::Space space{};
  std::uint32_t engines = 0;  // mask of isa::Engine bits
  bool per_bank = false;      // only if they touch the same PSUM bank
};

/// Sizes that were measured: elements per partition of an opcode on a unit, or bytes of a DMA
/// packet.
struct Calibrated {
  std::string target, unit, opcode;
  std::int64_t least = 0, most = 0;
};

/// The distance of latencies on chips from simulated ones, by the origin of the program.
struct Spread {
  std::string kind;          // trace, nki, neuronxcc
  double low = 0, high = 0;  // four of five measured latencies are this many times the simulated
  double widening = 0;       // of the logarithms, for a run at nothing but unmeasured rates
  double versions = 0;       // root mean square of what it differs by, as a logarithm, between two
                             // versions of one kernel; 0 = not known
  std::vector<std::string> targets;  // of the measurements
};

struct Config : DeviceRates {
  std::string name;
  std::string target;
  isa::Machine machine;  // the target's, with the sizes that this config changes
  std::array<EngineConfig, isa::kEngineCount> engines{};
  std::vector<CostRule> rules;
  std::vector<CostExtra> extras;
  ArrayConfig array;
  ThrottleConfig throttle;
  DmaConfig dma;
  HbmConfig hbm;
  TopologyConfig topology;
  CollectiveConfig collectives;
  std::vector<PortRule> ports;
  CompilerConfig compiler;
  std::vector<Calibrated> calibrated;
  std::vector<Spread> spreads;
  std::string instance_type;
};

}  // namespace nkisim::models
