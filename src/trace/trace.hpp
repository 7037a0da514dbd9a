// Collects the functions that read and write traces, which are files of NKI instructions. It is the
// public header of src/trace.
//
//   read_trace(path)                 a file's program, checked; JSON Lines or binary, gzip or plain
//   write_trace(trace, path)         the same forms; format_trace gives the bytes
//   TraceFile                        a program, its kernel's name and the sources of its inputs
//   load_inputs(trace, memory)       writes those inputs into a run's memory
//
// Within: json_line parses a line, inst_reader and operand_text make instructions of it, and
// trace_binary, binary_reader and binary_writer are the other form. Folders of src/ that read or
// list operands themselves use operand_text.hpp and trace_names.hpp.
#pragma once

#include "src/trace/trace_file.hpp"
#include "src/trace/trace_reader.hpp"
#include "src/trace/trace_writer.hpp"
