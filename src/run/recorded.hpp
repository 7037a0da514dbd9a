// Checks a program that an untrusted process made of a Python kernel. Only facts that follow from
// the program itself are believed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/trace/trace_file.hpp"

namespace nkisim {

/// An array of the caller's that a program takes as one of its tensors.
struct BoundInput {
  std::string key;     // in the archive
  std::string tensor;  // its name in the program
  bool written = false;
  std::string dtype = {};  // as the program has it, and its sizes
  std::vector<std::int64_t> shape = {};
};

/// Facts of a recorded program.
struct Recorded {
  bool legacy = false;                 // of neuronxcc.nki
  std::uint64_t instructions = 0;      // before any compiler
  std::vector<BoundInput> inputs;      // in the order of the tensors
  std::int64_t constant_bytes = 0;     // of data that the program brings along
  int cores = 1;                       // that it runs on
  int sdk = isa::Program::kNewestSdk;  // release 2.`sdk`, whose instructions these are
};

/// Throws Error of rule trace_not_recorded if `trace` is not as recording a kernel makes it (open
/// addresses; no semaphores, packets, ranks or device code of its own) or takes data from anywhere
/// but archive `archive` next to it. Arrays of the archive named arg0, arg1, ... are inputs.
[[nodiscard]] Recorded recorded(const TraceFile& trace, const std::string& archive);

}  // namespace nkisim
