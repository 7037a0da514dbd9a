// Declares TraceFile, the contents of a trace (a file of NKI instructions) in memory: the program,
// the sources of its data, and the header's facts.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isa/program/program.hpp"
#include "src/trace/data_source.hpp"

namespace nkisim {

struct TraceFile {
  std::unique_ptr<isa::Program> program;
  std::vector<DataSource> data;  // by tensor id; may be shorter than the tensor list
  std::string name;              // of the kernel
  std::string about;             // free text
  bool executed = false;         // stream: "executed" (loops already unrolled) or "program"
  bool open = false;      // as recorded: the compiler is to give on-chip tensors their addresses
  bool recorded = false;  // from a kernel
  bool legacy = false;    // ... of neuronxcc.nki
  int cores = 1;          // logical cores the header declares
  std::map<std::uint16_t, std::string> semaphore_names;
  std::filesystem::path folder;  // where relative data files are

  [[nodiscard]] const DataSource& source(std::uint32_t tensor) const {
    static const DataSource kNoData;
    return tensor < data.size() ? data[tensor] : kNoData;
  }
};

/// Writes every input and constant of `trace` into `memory`.
inline void load_inputs(const TraceFile& trace, isa::Memory& memory, LoadOptions options = {}) {
  if (options.folder.empty()) options.folder = trace.folder;
  load_inputs(*trace.program, trace.data, memory, options);
}

}  // namespace nkisim
