// Recognises the form of a trace (a file of NKI instructions), and reads it line by line.

#include "src/trace/trace_reader.hpp"

#include "isa/program/ordering.hpp"
#include "src/files/byte_reader.hpp"
#include "src/trace/inst_reader.hpp"
#include "src/trace/trace_binary.hpp"
#include "src/trace/trace_declare.hpp"

namespace nkisim {
namespace {

constexpr std::uint32_t kProgressLines = 1U << 15U;

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

class TextReader {
 public:
  TextReader(ByteReader& in, const ReadOptions& options) : in_(in), options_(options) {}

  TraceFile read() {
    std::string_view line;
    try {
      while (in_.read_line(line)) {
        ++number_;
        if (options_.progress && number_ % kProgressLines == 0) {
          options_.progress(in_.consumed(), in_.total());
        }
        if (!blank(line)) read_line(line);
      }
      if (!insts_)
        isa::fail(isa::Rule::file_damaged, "the file is empty; a trace header is required");
    } catch (isa::Error& e) {
      e.at("", {.trace_line = number_});
      e.in(in_.name(), "");
      throw;
    }
    trace_.program->finish();
    isa::check_ordering(*trace_.program, !trace_.open);
    return std::move(trace_);
  }

 private:
  void read_line(std::string_view line) {
    const Json json = json_.parse(line);
    if (!insts_) {
      read_header(json, in_.name(), options_, trace_);
      insts_ = std::make_unique<InstReader>(trace_);
      return;
    }
    if (!json.is(JsonType::kObject))
      isa::fail(isa::Rule::trace_field, "line", json.describe(), "an object");
    const auto tensor = json.find("tensor");
    if (tensor && !json.find("i")) {
      if (json.size() != 1)
        isa::fail(isa::Rule::trace_field, "a \"tensor\" line has other keys; none are allowed");
      read_tensor(*tensor, trace_);
      return;
    }
    insts_->read(json, number_);
  }

  ByteReader& in_;
  const ReadOptions& options_;
  JsonLine json_;
  TraceFile trace_;
  std::unique_ptr<InstReader> insts_;
  std::uint32_t number_ = 0;
};

TraceFile read_any(ByteReader in, const ReadOptions& options) {
  TraceFile trace =
      is_binary_trace(in) ? read_binary_trace(in, options) : TextReader(in, options).read();
  trace.folder = std::filesystem::path(in.name()).parent_path();
  return trace;
}

}  // namespace

TraceFile read_trace(const std::string& path, const ReadOptions& options) {
  if (path.ends_with(".py") || path.find(".py:") != std::string::npos) {
    isa::fail(
        isa::Rule::file_damaged,
        path + " is Python; a trace is required, which nkisim kernel FILE.py:FUNCTION -o makes");
  }
  if (path.ends_with(".npz")) {
    isa::fail(isa::Rule::file_damaged,
              path + " holds arrays; a trace is required, which names it or gets it by --inputs");
  }
  return read_any(ByteReader::open(path), options);
}

TraceFile read_trace_text(std::string_view bytes, const std::string& name,
                          const ReadOptions& options) {
  return read_any(ByteReader::from_memory(bytes, name), options);
}

}  // namespace nkisim
