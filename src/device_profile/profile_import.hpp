// Makes a program of a device profile, so that it can be simulated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/device_profile/hw_profile.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

struct ImportOptions {
  std::string target;          // empty: by the profile's instance type, else trn2
  bool keep_preamble = false;  // also the runtime's set-up and clean-up
  bool packets = true;         // keep the profile's DMA packets; else the model makes its own
};

struct ImportResult {
  TraceFile trace;
  std::size_t left_out = 0;  // instructions of the runtime
  std::size_t transfers = 0, packets = 0;
  std::vector<std::string> warnings;
  /// Opcodes nkisim does not know, with their counts: they run at the config's default cost.
  std::vector<std::pair<std::string, std::size_t>> unknown_opcodes;
  /// The end of the first window of the PE utilisation limit, after the first PE instruction (ns);
  /// empty if the profile does not show the limit.
  std::optional<double> throttle_phase;
};

/// ImportResult::throttle_phase of the kernel in `profile`.
[[nodiscard]] std::optional<double> throttle_phase(const HwProfile& profile);

/// Throws isa::Error only if nothing can be imported.
[[nodiscard]] ImportResult import_profile(const HwProfile& profile, const ImportOptions& options);

}  // namespace nkisim
