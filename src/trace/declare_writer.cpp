// Writes the header and the tensor declarations of a trace (a file of NKI instructions).
#include <algorithm>
#include <array>
#include <cmath>

#include "src/files/json_text.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

class ObjectWriter {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }
  void text(std::string_view key, std::string_view value) {
    begin(key);
    append_json_string(out_, value);
  }
  void integer(std::string_view key, std::int64_t value) {
    begin(key);
    append_json_int(out_, value);
  }
  void real(std::string_view key, double value) {
    begin(key);
    append_json_real(out_, value);
  }
  void begin(std::string_view key) {
    if (out_.back() != '{') out_ += ',';
    append_json_string(out_, key);
    out_ += ':';
  }
  void end() { out_ += '}'; }

 private:
  std::string& out_;
};

void write_generator(std::string& out, ObjectWriter& w, const DataSource& s) {
  const DataSource defaults;
  w.text("generator", name(s.generator));
  if (s.seed != 0) w.integer("seed", s.seed);
  if (s.per_rank) {
    w.begin("per_rank");
    out += "true";
  }
  const auto real = [&w](std::string_view key, double value, double usual) {
    if (value != usual) w.real(key, value);
  };
  real("low", s.low, defaults.low);
  real("high", s.high, defaults.high);
  real("mean", s.mean, defaults.mean);
  real("scale", s.scale, defaults.scale);
  real("start", s.start, defaults.start);
  real("step", s.step, defaults.step);
}

std::string relocate(const std::string& file, const std::filesystem::path& from,
                     const std::filesystem::path& to) {
  const std::filesystem::path path(file);
  if (path.is_absolute() || from == to) return file;
  std::error_code ec;
  const auto moved = std::filesystem::relative(from / path, to.empty() ? "." : to, ec);
  return ec || moved.empty() ? file : moved.generic_string();
}

void write_data(std::string& out, const DataSource& s, const std::filesystem::path& from,
                const std::filesystem::path& to) {
  ObjectWriter w(out);
  switch (s.kind) {
    case DataSource::Kind::kNone:
      break;
    case DataSource::Kind::kNpy:
      w.text("npy", relocate(s.file, from, to));
      break;
    case DataSource::Kind::kNpz:
      w.text("npz", relocate(s.file, from, to));
      w.text("key", s.key);
      break;
    case DataSource::Kind::kGenerator:
      write_generator(out, w, s);
      break;
    case DataSource::Kind::kValues:
      w.begin("values");
      out += '[';
      for (std::size_t i = 0; i < s.values.size(); ++i) {
        if (i > 0) out += ',';
        append_json_real(out, s.values[i]);
      }
      out += ']';
      break;
  }
  w.end();
}

}  // namespace

std::string format_header(const TraceFile& trace) {
  const isa::Program& program = *trace.program;
  std::string out;
  ObjectWriter w(out);
  w.integer("nisa", kTraceVersion);
  w.text("target", program.machine().target);
  if (const auto changed = changed_sizes(program.machine()); !changed.empty()) {
    w.begin("machine");
    ObjectWriter machine(out);
    for (const isa::MachineSize& size : changed) machine.integer(size.key, size.value);
    machine.text("hash", machine_hash(program.machine()));
    machine.end();
  }
  if (!trace.name.empty()) w.text("name", trace.name);
  if (!trace.about.empty()) w.text("about", trace.about);
  w.text("stream", kStreamNames.at(trace.executed ? 1 : 0));
  w.text("semaphores", kSemaphoreModes.at(program.explicit_semaphores() ? 1 : 0));
  if (program.timing_only()) {
    w.begin("timing_only");
    out += "true";
  }
  if (program.virtual_addresses()) w.text("addresses", kAddressModes.at(trace.open ? 2 : 1));
  if (trace.recorded) w.text("api", kApiNames.at(trace.legacy ? 1 : 0));
  if (program.sdk() != isa::Program::kNewestSdk) {
    w.text("sdk", kSdks.at(static_cast<std::size_t>(program.sdk() - isa::Program::kOldestSdk)));
  }
  w.integer("cores", std::max(trace.cores, program.cores()));
  if (program.ranks() != 1) w.integer("ranks", program.ranks());
  if (!trace.semaphore_names.empty()) {
    w.begin("semaphore_names");
    ObjectWriter names(out);
    for (const auto& [id, text] : trace.semaphore_names) names.text(std::to_string(id), text);
    names.end();
  }
  if (!program.sources().empty()) {
    w.begin("sources");
    ObjectWriter sources(out);
    for (const auto& [file, text] : program.sources()) sources.text(file, text);
    sources.end();
  }
  w.end();
  return out;
}

std::string format_tensor(const TraceFile& trace, std::uint32_t id,
                          const std::filesystem::path& folder) {
  const isa::Tensor& t = trace.program->tensor(id);
  const bool on_chip = t.space != isa::Space::kHbm;
  std::string out = "{\"tensor\":";
  ObjectWriter w(out);
  w.text("name", t.name);
  w.text("space", isa::name(t.space));
  w.text("dtype", isa::name(t.dtype));
  w.begin("shape");
  out += '[';
  for (const std::int64_t size : t.shape) {
    if (out.back() != '[') out += ',';
    append_json_int(out, size);
  }
  out += ']';
  if (t.role != isa::TensorRole::kInternal) {
    w.text("role", kRoleNames.at(static_cast<std::size_t>(t.role)));
  }
  const bool placed = on_chip && (!trace.program->virtual_addresses() || t.fixed);
  const bool known = !on_chip || !trace.open;
  if (placed || (known && t.address != 0)) w.integer("address", t.address);
  if (t.partition != 0) w.integer("partition", t.partition);
  if (t.core != 0) w.integer("core", t.core);
  if (t.spill) {
    w.begin("spill");
    out += "true";
  }
  const bool counts = on_chip && trace.program->virtual_addresses();  // to the compiler, at a loop
  if (counts && t.born != 0 && !trace.program->control_flow().empty()) w.integer("born", t.born);
  if (t.file != 0)
    w.text("loc", trace.program->shared_files().at(t.file - 1) + ":" + std::to_string(t.line));
  if (const DataSource& s = trace.source(id); s.kind != DataSource::Kind::kNone) {
    w.begin("data");
    write_data(out, s, trace.folder, folder);
  }
  w.end();
  out += '}';
  return out;
}

}  // namespace nkisim
