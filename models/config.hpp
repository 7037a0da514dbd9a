// Every rate and latency of a device, as plain values. Filled from configs/*.json; no default here
// means anything about a chip.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "isa/base/part.hpp"
#include "models/collective/config.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// How a part uses its engine.
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
  std::string mode = {};          // performance_mode label
  bool assumed = false;           // its fixed time or rate has no source
  bool documented = false;        // its rate is stated by the documentation
};

/// A surcharge: every matching row applies on top of the deciding CostRule.
struct CostExtra {
  std::string id = {};
  isa::Unit unit{};
  std::vector<std::string> opcodes = {};
  std::uint32_t present = 0, absent = 0, dtypes = 0;
  Fs fixed = 0;
  double stream_factor = 1;  // times the streaming cycles
  double min_cycles = 0;     // least streaming time
};

struct EngineConfig {
  double clock_ghz = 1;
  Fs start = 0;                  // when the engine begins, after the first
  Fs issue = 0;                  // data-path start to the next instruction's earliest start
  Fs gap = 0;                    // sequencer instruction's end to the next start
  Fs wake = 0;                   // semaphore visible to the waiting instruction's start
  Fs wake_sequencer = 0;         // the same when a sequencer instruction waits
  Fs update = 0;                 // end to semaphore visible
  Fs issue_after_sequencer = 0;  // instead of issue, after a sequencer instruction
};

struct ArrayConfig {
  Fs lead = 0, lead_throttled = 0;  // start stamp before the array is free
  Fs bubble = 0, bubble_throttled = 0;
  bool background_load = true;  // weights load while the previous multiply streams
  std::int32_t tile = 32;       // granularity of row and column tiling
};

/// Utilisation limit of the PE array: the rate of a window follows from the activity of the last.
struct ThrottleConfig {
  bool enabled = false;
  Fs window = 0;
  double rise = 0;  // busy fraction of a slow window that lifts the limit for the next
  double fall = 0;  // busy fraction of a fast window below which the limit returns
  double slow_rate = 1;
  Fs first_boundary = 0;  // after the first PE instruction
};

/// One way of producing descriptors.
struct DgeConfig {
  bool available = false;
  std::array<Fs, isa::kEngineCount> trigger{};  // duration of the trigger instruction, per engine
  Fs trigger_per_outstanding = 0;
  Fs dynamic_trigger = 0;  // of an address known at run time, and holds the sequencer; 0 = trigger
  // Loads from run-time addresses of stretches in HBM shorter than this: one engine does them all.
  std::int64_t short_run_bytes = 0;
  Fs short_run = 0;             // of each descriptor then
  bool holds_sequencer = true;  // next instruction `gap` after the trigger's end; else ii_*
  Fs interval_base = 0, interval_per_descriptor = 0;
  Fs wake_base = 0, wake_per_descriptor = 0;  // instead of wake, if it waited; 0 = wake
  Fs first_packet = 0;                        // trigger end to first packet
  Fs queue_interval = 0;         // least time between the first packets of two transfers of a queue
  std::int64_t queue_bytes = 0;  // of a queue and engine, unfinished when a trigger ends; 0 = any
  std::int64_t packet_bytes = 0;      // descriptors are merged into packets of this size; 0 = no
  std::int64_t max_packet_bytes = 0;  // a descriptor is cut into packets of this size
};

struct DmaConfig {
  int engines = 16;
  double bytes_per_ns = 1;
  Fs packet_gap = 0, packet_overlap = 0, compute_extra = 0;
  Fs hbm_read_latency = 0;
  Fs store_floor = 0, load_floor = 0;  // least time per small element
  std::int64_t floor_max_bytes = 0;
  Fs piece_gap = 0;  // after each of the pieces that a load has per partition, if several; of
  std::int64_t piece_full_bytes = 0;  // shorter ones than this the share
  std::int64_t split_bytes = 0;  // a copy within HBM gives an engine no less; 0 = as its rows say
  double hbm_stall_fraction = 0, hbm_write_stall_fraction = 0;
  Fs hbm_stall_quantum = 0;
  Fs cold_penalty = 0, cold_idle = 0;
  std::int64_t cold_full_bytes = 1;
  Fs semaphore_packet = 0, semaphore_latency = 0, semaphore_serial = 0;
  std::vector<Fs> stagger;  // per engine
  double read_stagger_factor = 1;
  std::int64_t read_stagger_bytes = 0;
  double transpose_from_hbm = 1, transpose_from_sbuf = 1;  // of the copy rate
  std::int64_t rows_per_engine = 1;  // partitions one engine serves before the next is used
  DgeConfig software, hardware, fixed;
  std::array<isa::DgeMode, isa::kEngineCount> default_mode{};  // by triggering engine
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

struct HbmConfig {
  double bytes_per_ns = 0;  // of one stack
};

/// Engines that cannot use a memory at the same time.
struct PortRule {
  isa::Space space{};
  std::uint32_t engines = 0;  // mask of isa::Engine bits
  bool per_bank = false;      // only if they touch the same PSUM bank
};

/// What the compiler decides rather than the chip.
struct CompilerConfig {
  bool infer_dependences = true;
  int waits_per_instruction = 1;  // semaphores; further waits are instructions of their own
  int dma_queues_per_engine = 1;  // queues a triggering engine spreads its DMAs over
};

/// Sizes that were measured: elements per partition of an opcode on a unit, or bytes of a DMA
/// packet.
struct Calibrated {
  std::string target, unit, opcode;
  std::int64_t least = 0, most = 0;
};

/// How far latencies on chips are from simulated ones, by how the program came about.
struct Spread {
  std::string kind;          // trace, nki, neuronxcc
  double low = 0, high = 0;  // four of five measured latencies are this many times the simulated
  double widening = 0;       // of the logarithms, for a run at nothing but unmeasured rates
  double versions = 0;       // root mean square of what it differs by, as a logarithm, between two
                             // versions of one kernel; 0 = not known
  std::vector<std::string> targets;  // of the measurements
};

struct Config {
  std::string name;
  std::string target;
  double base_clock_ghz = 1;  // of cycle counts in reports
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
  int pe_rows = 128, pe_columns = 128;
  std::string instance_type;
};

}  // namespace nkisim::models
