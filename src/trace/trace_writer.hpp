// Writes traces (files of NKI instructions) as JSON Lines or binary, plain or gzip; the file's name
// decides which.
#pragma once

#include <string>
#include <string_view>

#include "src/trace/trace_file.hpp"

namespace nkisim {

enum class TraceForm : std::uint8_t { kText, kBinary };

/// `.nisa` is binary, anything else JSON Lines; a further `.gz` compresses. The file appears only
/// when it is complete. Throws isa::Error.
void write_trace(const TraceFile& trace, const std::string& path);
/// The bytes of the trace. The text is canonical: reading and writing it again changes nothing.
[[nodiscard]] std::string format_trace(const TraceFile& trace, TraceForm form);
/// One instruction as its JSON line, without the end of line.
void append_inst(std::string& out, const isa::Program& program, const isa::Inst& inst);

}  // namespace nkisim
