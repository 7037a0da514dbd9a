// Declares the binary form of a trace (a file of NKI instructions): the content of the text form
// (JSON Lines) in a tenth of the space.
//
// A file is a magic number, the version, and records. A record is a varint tag and its fields.
// Names (ops, parameters, enumerators, dtypes) appear as text in the tables a file carries itself,
// never as numbers of this program's enums, so files outlive them. docs/trace-format.md has the
// layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "src/files/byte_reader.hpp"
#include "src/trace/trace_file.hpp"
#include "src/trace/trace_reader.hpp"

namespace nkisim {

[[nodiscard]] bool is_binary_trace(ByteReader& in);
[[nodiscard]] TraceFile read_binary_trace(ByteReader& in, const ReadOptions& options);

/// Bytes of a trace, in either form, that a writer collects before it hands them on.
inline constexpr std::size_t kFlushBytes = std::size_t{1} << 18U;

/// Numbers of the format; they never change meaning. Append only.
namespace binary {
inline constexpr std::string_view kMagic = "\x89NISA\r\n";  // damaged by text-mode transfers
inline constexpr char kVersion = 1;
enum Record : std::uint8_t { kEnd, kHeader, kTensor, kString, kPattern, kRef, kForm };
inline constexpr std::uint64_t kFirstForm = 16;  // tag of instructions with form 0
enum RefBase : std::uint8_t { kDeclared, kRawSbuf, kRawPsum };
enum Value : std::uint8_t {
  kOperand,
  kOperands,
  kReal,
  kInt,
  kFalse,
  kTrue,
  kChoice,
  kRegister,
  kInts,
  kText
};
inline constexpr std::uint64_t kHasLoc = 1, kHasLabel = 2, kHasSync = 4, kHasDma = 8, kForward = 16,
                               kHasOrdering = 32, kHasRegion = 64, kFlags = 127;
inline std::uint64_t zigzag(std::int64_t v) {
  return (static_cast<std::uint64_t>(v) << 1U) ^ static_cast<std::uint64_t>(v >> 63);
}
inline std::int64_t unzigzag(std::uint64_t v) {
  return static_cast<std::int64_t>((v >> 1U) ^ (~(v & 1U) + 1));
}
}  // namespace binary

/// Receives the bytes of a file in order.
using ByteSink = std::function<void(std::string_view)>;
/// `folder` is where the file will be (relative data files).
void write_binary_trace(const TraceFile& trace, const std::filesystem::path& folder,
                        const ByteSink& sink);

}  // namespace nkisim
