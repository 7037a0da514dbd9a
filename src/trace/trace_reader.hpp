// Reads traces (files of NKI instructions). They may be JSON Lines or binary, plain or gzip; the
// content shows which.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/trace/trace_file.hpp"

namespace nkisim {

struct ReadOptions {
  std::string target = {};  // check against this target instead of the header's
  /// The machine of a run on that target (a config's), if it is not as the target has it.
  std::function<isa::Machine(std::string_view target)> machine = {};
  bool allow_over_capacity = false;  // let tensors exceed SBUF and PSUM
  /// Called now and then with the bytes of the file read so far and its size.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Reads and checks a whole trace, one line or record at a time. Every malformed input is an
/// isa::Error that names file, line, instruction, operand, what was found and what is required.
/// In a binary trace the line is the one its JSON Lines form (`nkisim convert`) would have.
[[nodiscard]] TraceFile read_trace(const std::string& path, const ReadOptions& options = {});
/// The same from memory; `name` stands for the file in messages.
[[nodiscard]] TraceFile read_trace_text(std::string_view bytes, const std::string& name,
                                        const ReadOptions& options = {});

}  // namespace nkisim
