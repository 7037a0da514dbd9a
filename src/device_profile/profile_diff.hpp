// Compares a simulated run with a device profile, instruction by instruction and packet by packet.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "models/config.hpp"
#include "src/device_profile/hw_profile.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// One instruction of either run. Times are in nanoseconds from the run's first instruction.
struct TimedInst {
  std::string key;  // instruction_key(); empty if the run does not know it
  std::string name, opcode;
  isa::Unit unit = isa::Unit::kSync;
  int core = 0;
  double start = 0, duration = 0;
  double wait = -1;  // for a semaphore; negative: not measured
};

struct TimedPacket {
  std::string queue;
  int core = 0, engine = 0;
  double start = 0, duration = 0;
  std::int64_t bytes = 0;
};

/// A run as both sides are seen: program order per engine, packets in order of start.
struct TimedRun {
  std::string name;
  std::vector<TimedInst> instructions;
  std::vector<TimedPacket> packets;
  /// First instruction to the last end of a data-path instruction or payload packet.
  [[nodiscard]] double total() const;
};

/// The kernel body of a measured profile, or the whole of a simulated one.
[[nodiscard]] TimedRun timed_run(const HwProfile& profile);
/// Simulates a trace (timing only where it can) and keeps what it did.
[[nodiscard]] TimedRun timed_run(const TraceFile& trace, const models::Config& config);

/// Spread of absolute errors.
struct ErrorSpread {
  std::size_t count = 0;
  double median = 0, p90 = 0, worst = 0;
};

struct OpcodeDiff {
  std::string unit, opcode;
  std::size_t count = 0;
  double measured_mean = 0, simulated_mean = 0;  // duration, ns
  ErrorSpread duration;                          // relative
  ErrorSpread start, wait;                       // ns
  double excess = 0;  // sum of absolute duration errors, ns: what to improve first
};

struct EngineDiff {
  int core = 0;
  std::string engine;
  double measured = 0, simulated = 0;  // time with at least one instruction running, ns
};

struct InstDiff {
  TimedInst measured, simulated;
};

struct ProfileDiff {
  double measured_total = 0, simulated_total = 0;
  bool by_key = false;  // instructions matched by identity, not by order
  std::size_t only_measured = 0, only_simulated = 0;
  ErrorSpread duration, start, wait;
  std::vector<OpcodeDiff> opcodes;  // worst first
  std::vector<EngineDiff> engines;
  std::size_t measured_packets = 0, simulated_packets = 0;
  ErrorSpread packet_duration, packet_start;
  double measured_packet_time = 0, simulated_packet_time = 0;
  double measured_dma_active = 0, simulated_dma_active = 0;
  std::vector<InstDiff> pairs;
};

[[nodiscard]] ProfileDiff diff_runs(const TimedRun& simulated, const TimedRun& measured);

/// (simulated / measured - 1), 0 if both are 0.
[[nodiscard]] double relative(double simulated, double measured);

}  // namespace nkisim
