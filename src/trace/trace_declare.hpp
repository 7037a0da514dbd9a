// Reads the header line and the tensor declarations of a trace (a file of NKI instructions), which
// are JSON in both its text and its binary form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "src/trace/json_line.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// Options of reading a trace.
struct ReadOptions;

/// Reads a header object into `trace` (creating its program) or throws isa::Error.
void read_header(Json header, const std::string& trace_name, const ReadOptions& options,
                 TraceFile& trace);
/// Reads one tensor declaration and adds the tensor.
void read_tensor(Json tensor, TraceFile& trace);

/// The header without tensors, as one JSON object.
[[nodiscard]] std::string format_header(const TraceFile& trace);
/// {"tensor": {...}} for tensor `id`. `folder` is where the written trace will be.
[[nodiscard]] std::string format_tensor(const TraceFile& trace, std::uint32_t id,
                                        const std::filesystem::path& folder);

/// "kernel.py:42" to a file id and line; throws naming `what`.
void read_loc(std::string_view what, Json value, isa::Program& program, std::uint32_t& file,
              std::uint32_t& line);

/// A number, or a text that JSON numbers cannot say: "inf", "-inf", "nan", "0x1.8p-3".
[[nodiscard]] double read_real(std::string_view what, Json value);
[[nodiscard]] std::optional<double> parse_special_real(std::string_view text);

}  // namespace nkisim
