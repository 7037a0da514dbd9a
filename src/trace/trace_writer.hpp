// Writes traces (files of NKI instructions) as JSON Lines or binary, plain or gzip; the file's name
// decides which.
#pragma once

#include <string>
#include <string_view>

#include "src/trace/trace_file.hpp"

namespace nkisim {

/// kPatterns: as kText, with access patterns for slices, for programs that change operands.
enum class TraceForm : std::uint8_t { kText, kBinary, kPatterns };

/// `.nisa` is binary, anything else JSON Lines; a further `.gz` compresses. The file appears only
/// when it is complete. `patterns`: TraceForm::kPatterns for text. Throws isa::Error.
void write_trace(const TraceFile& trace, const std::string& path, bool patterns = false);
/// The bytes of the trace. The text is canonical: reading and writing it again changes nothing.
[[nodiscard]] std::string format_trace(const TraceFile& trace, TraceForm form);

}  // namespace nkisim
