// Reads a file of instructions (trace) from a fuzzer, and checks that text and binary form agree.
#pragma once

#include <string>
#include <string_view>

#include "isa/program/disasm.hpp"
#include "src/run/recorded.hpp"
#include "src/trace/trace.hpp"
#include "tests/fuzz/readers/reader.hpp"

namespace nkisim::fuzz {

/// Reads `bytes`. What is a trace is written in both forms, and each of them reads back as the same
/// text; its instructions have a disassembly, and it is a recorded program or is refused as one.
inline void read_fuzzed_trace(std::string_view bytes) {
  accepted([&] {
    const TraceFile trace = read_trace_text(bytes, "fuzz");
    const std::string text = format_trace(trace, TraceForm::kText);
    const std::string packed = format_trace(trace, TraceForm::kBinary);
    const bool kept = accepted([&] {
      require(format_trace(read_trace_text(text, "text"), TraceForm::kText) == text,
              "the text reads back as another");
      require(format_trace(read_trace_text(packed, "packed"), TraceForm::kText) == text,
              "the binary form reads back as another");
    });
    require(kept, "a trace that was written is refused");
    for (const isa::Inst& inst : trace.program->insts())
      (void)isa::disasm_parts(*trace.program, inst);
    accepted([&] { (void)recorded(trace, "archive.npz"); });
  });
}

}  // namespace nkisim::fuzz
