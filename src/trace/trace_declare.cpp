#include "src/trace/trace_declare.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/files/json_text.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_names.hpp"
#include "src/trace/trace_reader.hpp"

namespace nkisim {
namespace {

constexpr std::array<std::string_view, 2> kStreamNames = {"program", "executed"};
constexpr std::array<std::string_view, 2> kSemaphoreModes = {"derived", "explicit"};
constexpr std::array<std::string_view, 3> kAddressModes = {"physical", "virtual", "open"};
constexpr std::array<std::string_view, 2> kApiNames = {"nki", "neuronxcc"};
constexpr int kMaxCores = 256;

template <std::size_t N>
std::vector<std::string_view> as_vector(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

std::string text_member(std::string_view what, Json object, std::string_view key) {
  const auto value = object.find(key);
  if (!value) return {};
  if (!value->is(JsonType::kString)) {
    isa::fail(std::string(what) + "." + std::string(key), value->describe(), "a text");
  }
  return std::string(value->text());
}

template <std::size_t N>
std::size_t name_member(std::string_view what, Json object, std::string_view key,
                        const std::array<std::string_view, N>& names, std::size_t fallback) {
  const auto value = object.find(key);
  if (!value) return fallback;
  const auto index = value->is(JsonType::kString) ? find_name(names, value->text()) : std::nullopt;
  if (!index) {
    isa::fail(std::string(what) + "." + std::string(key), value->describe(),
              list_names(as_vector(names)));
  }
  return *index;
}

bool bool_member(std::string_view what, Json object, std::string_view key) {
  const auto value = object.find(key);
  if (!value) return false;
  if (!value->is(JsonType::kBool)) {
    isa::fail(std::string(what) + "." + std::string(key), value->describe(), "true or false");
  }
  return value->integer() != 0;
}

isa::Machine read_machine(Json header, const std::string& override_target) {
  const std::string own = text_member("header", header, "target");
  if (own.empty()) isa::fail("header.target", "missing", "trn1, inf2, trn2 or trn3");
  const auto declared = isa::find_machine(own);
  if (!declared) isa::fail("header.target", "\"" + own + "\"", "trn1, inf2, trn2 or trn3");
  if (override_target.empty()) return *declared;
  const auto machine = isa::find_machine(override_target);
  if (!machine) isa::fail("target", "\"" + override_target + "\"", "trn1, inf2, trn2 or trn3");
  return *machine;
}

void check_version(Json header) {
  const auto version = header.find("nisa");
  if (!version) {
    isa::fail("the first line is not a trace header; an object with \"nisa\": 1 is required");
  }
  if (!version->is(JsonType::kInt) || version->integer() != kTraceVersion) {
    isa::fail("header.nisa", "version " + version->describe(),
              "version " + std::to_string(kTraceVersion));
  }
}

void read_semaphore_names(Json header, TraceFile& trace) {
  const auto names = header.find("semaphore_names");
  if (!names) return;
  if (!names->is(JsonType::kObject)) {
    isa::fail("header.semaphore_names", names->describe(), "an object of number: name");
  }
  for (const Json entry : *names) {
    const std::string key(entry.key());
    const bool digits =
        !key.empty() && key.size() <= 5 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stol(key) > 65535 || !entry.is(JsonType::kString)) {
      isa::fail("header.semaphore_names", "\"" + key + "\": " + entry.describe(),
                "a semaphore number from 0 to 65535 with a name");
    }
    trace.semaphore_names[static_cast<std::uint16_t>(std::stol(key))] = std::string(entry.text());
  }
}

double real_member(std::string_view what, Json object, std::string_view key, double fallback) {
  const auto value = object.find(key);
  if (!value) return fallback;
  if (!value->is_number()) {
    isa::fail(std::string(what) + "." + std::string(key), value->describe(), "a number");
  }
  return value->real();
}

void read_generator(std::string_view what, Json data, DataSource& source) {
  source.kind = DataSource::Kind::kGenerator;
  const std::string_view text = data.find("generator")->text();
  std::vector<std::string_view> names;
  for (int g = 0; g < kGeneratorCount; ++g) {
    names.push_back(name(static_cast<Generator>(g)));
    if (names.back() == text) source.generator = static_cast<Generator>(g);
  }
  if (name(source.generator) != text) {
    isa::fail(std::string(what) + ".generator", data.find("generator")->describe(),
              list_names(names));
  }
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  source.seed = int_member(what, data, "seed", 0, kMax, 0);
  source.per_rank = bool_member(what, data, "per_rank");
  source.low = real_member(what, data, "low", source.low);
  source.high = real_member(what, data, "high", source.high);
  source.mean = real_member(what, data, "mean", source.mean);
  source.scale = real_member(what, data, "scale", source.scale);
  source.start = real_member(what, data, "start", source.start);
  source.step = real_member(what, data, "step", source.step);
  if (source.generator == Generator::kIntegers) {
    constexpr double kLimit = 9007199254740992.0;  // 2^53
    const bool whole =
        source.low == std::floor(source.low) && source.high == std::floor(source.high);
    if (!whole || source.low < -kLimit || source.high > kLimit || source.low >= source.high) {
      isa::fail(std::string(what), "an integers generator with a bad range",
                "whole low < high within 2^53");
    }
  }
}

DataSource read_data(std::string_view what, Json data) {
  DataSource source;
  if (!data.is(JsonType::kObject)) isa::fail(what, data.describe(), "an object");
  check_keys(what, data,
             {"npy", "npz", "key", "generator", "seed", "low", "high", "mean", "scale", "start",
              "step", "values", "per_rank"});
  const bool npy = data.find("npy").has_value(), npz = data.find("npz").has_value();
  const bool generator = data.find("generator").has_value();
  const auto values = data.find("values");
  if (npy + npz + generator + values.has_value() != 1) {
    isa::fail(what, "without one source", "one of npy, npz, generator or values");
  }
  if (npy || npz) {
    source.kind = npy ? DataSource::Kind::kNpy : DataSource::Kind::kNpz;
    source.file = text_member(what, data, npy ? "npy" : "npz");
    source.key = text_member(what, data, "key");
    if (source.file.empty() || (npz && source.key.empty())) {
      isa::fail(what, "without a file name or key", npz ? "\"npz\" and \"key\"" : "\"npy\"");
    }
  } else if (generator) {
    read_generator(what, data, source);
  } else {
    source.kind = DataSource::Kind::kValues;
    for (const Json v : *values) source.values.push_back(read_real(what, v));
    if (!values->is(JsonType::kArray) || source.values.empty()) {
      isa::fail(what, "values " + values->describe(), "a list of numbers");
    }
  }
  return source;
}

std::vector<std::int64_t> read_shape(std::string_view what, Json tensor) {
  const auto list = tensor.find("shape");
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  const std::string required = "a list of 1 to 8 positive sizes of at most 2^36 elements together";
  if (!list || !list->is(JsonType::kArray) || list->size() < 1 || list->size() > kMaxDims) {
    isa::fail(std::string(what) + ".shape", list ? list->describe() : "missing", required);
  }
  for (const Json v : *list) {
    if (!v.is(JsonType::kInt) || v.integer() < 1 || v.integer() > isa::kMostElements / elements) {
      isa::fail(std::string(what) + ".shape", "a list with " + v.describe(), required);
    }
    elements *= v.integer();
    shape.push_back(v.integer());
  }
  return shape;
}

isa::Tensor read_tensor_fields(const std::string& what, Json json, TraceFile& trace) {
  isa::Tensor t;
  t.name = text_member(what, json, "name");
  t.space = static_cast<isa::Space>(name_member(what, json, "space", kSpaceNames, 0));
  const std::string dtype = text_member(what, json, "dtype");
  const auto parsed = isa::parse_dtype(dtype);
  if (!parsed) isa::fail(what + ".dtype", "\"" + dtype + "\"", "a dtype name");
  t.dtype = *parsed;
  t.role = static_cast<isa::TensorRole>(name_member(what, json, "role", kRoleNames, 0));
  t.shape = read_shape(what, json);
  t.core = static_cast<std::uint8_t>(int_member(what, json, "core", 0, trace.cores - 1, 0));
  const bool on_chip = t.space != isa::Space::kHbm;
  const bool placed = on_chip && !trace.program->virtual_addresses();
  t.address = int_member(what, json, "address", 0, kMaxAddress,
                         placed ? std::nullopt : std::optional<std::int64_t>(0));
  if (!on_chip && json.find("partition")) isa::fail(what, "in HBM with a partition", "none");
  t.partition =
      static_cast<std::uint16_t>(int_member(what, json, "partition", 0, isa::kPartitions - 1, 0));
  if (on_chip && t.shape[0] > isa::kPartitions) {
    isa::fail(what + ".shape", std::to_string(t.shape[0]) + " partitions", "at most 128");
  }
  if (on_chip && t.role != isa::TensorRole::kInternal) {
    isa::fail(what + ".role",
              std::string(kRoleNames.at(static_cast<std::size_t>(t.role))) + " in " +
                  std::string(isa::name(t.space)),
              "HBM");
  }
  t.fixed = on_chip && trace.open && json.find("address").has_value();
  const auto so_far = static_cast<std::int64_t>(trace.program->insts().size());
  t.born = static_cast<std::uint32_t>(
      int_member(what, json, "born", 0, std::numeric_limits<std::uint32_t>::max(), so_far));
  if (const auto loc = json.find("loc")) {
    read_loc(what + ".loc", *loc, *trace.program, t.file, t.line);
  }
  return t;
}

}  // namespace

std::string_view name(Generator generator) {
  constexpr std::array<std::string_view, kGeneratorCount> kNames = {"uniform",  "normal", "arange",
                                                                    "integers", "zeros",  "ones"};
  return kNames.at(static_cast<std::size_t>(generator));
}

double read_real(std::string_view what, Json value) {
  if (value.is_number()) return value.real();
  const std::string text(value.is(JsonType::kString) ? value.text() : std::string_view{});
  if (const auto real = parse_special_real(text)) return *real;
  isa::fail(what, value.describe(), "a number (or \"inf\", \"-inf\", \"nan\", a hex float)");
}

std::optional<double> parse_special_real(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  if (text.substr(0, 2) != "0x") return std::nullopt;
  text.remove_prefix(2);
  double value = 0;
  const auto [end, ec] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  if (ec != std::errc{} || end != text.data() + text.size() || text.front() == '-') {
    return std::nullopt;
  }
  return negative ? -value : value;
}

void read_header(Json header, const std::string& trace_name, const ReadOptions& options,
                 TraceFile& trace) {
  if (!header.is(JsonType::kObject)) {
    isa::fail("the first line is not a trace header; an object with \"nisa\": 1 is required");
  }
  check_version(header);
  check_keys("header", header,
             {"nisa", "target", "name", "about", "stream", "semaphores", "timing_only", "cores",
              "ranks", "addresses", "api", "sdk", "semaphore_names", "files", "tensors"});
  trace.program = std::make_unique<isa::Program>(read_machine(header, options.target), trace_name);
  trace.name = text_member("header", header, "name");
  trace.about = text_member("header", header, "about");
  trace.executed = name_member("header", header, "stream", kStreamNames, 0) == 1;
  trace.cores = static_cast<int>(int_member("header", header, "cores", 1, kMaxCores, 1));
  isa::Program& program = *trace.program;
  program.set_ranks(
      static_cast<int>(int_member("header", header, "ranks", 1, isa::World::kMostRanks, 1)));
  program.set_explicit_semaphores(name_member("header", header, "semaphores", kSemaphoreModes, 0) ==
                                  1);
  program.set_timing_only(bool_member("header", header, "timing_only"));
  const std::size_t addresses = name_member("header", header, "addresses", kAddressModes, 0);
  program.set_virtual_addresses(addresses != 0);
  trace.open = addresses == 2;
  trace.recorded = trace.open || header.find("api").has_value();
  trace.legacy = name_member("header", header, "api", kApiNames, 0) == 1;
  if (trace.open && program.explicit_semaphores()) {
    isa::fail("header.semaphores", "explicit in a program with open addresses", "derived");
  }
  program.set_sdk(isa::Program::kOldestSdk +
                  static_cast<int>(name_member("header", header, "sdk", kSdks, kSdks.size() - 1)));
  program.set_allow_over_capacity(options.allow_over_capacity);
  read_semaphore_names(header, trace);
  if (const auto files = header.find("files")) {
    for (const Json file : *files) {
      if (!file.is(JsonType::kString))
        isa::fail("header.files", file.describe(), "a list of texts");
      program.add_file(file.text());
    }
  }
  if (const auto tensors = header.find("tensors")) {
    if (!tensors->is(JsonType::kArray)) {
      isa::fail("header.tensors", tensors->describe(), "a list of tensors");
    }
    for (const Json tensor : *tensors) read_tensor(tensor, trace);
  }
}

void read_tensor(Json json, TraceFile& trace) {
  if (!json.is(JsonType::kObject)) isa::fail("tensor", json.describe(), "an object");
  const std::string tensor_name = text_member("tensor", json, "name");
  if (!valid_tensor_name(tensor_name)) {
    isa::fail("tensor.name", "\"" + tensor_name.substr(0, 80) + "\"",
              "a name without blanks or []\"\\ that does not look like a number");
  }
  const std::string what = "tensor " + tensor_name;
  check_keys(what, json,
             {"name", "space", "dtype", "shape", "role", "address", "partition", "core", "born",
              "loc", "data"});
  const std::uint32_t id = trace.program->add_tensor(read_tensor_fields(what, json, trace));
  if (const auto data = json.find("data")) {
    const isa::Tensor& t = trace.program->tensor(id);
    const bool initialised = t.role == isa::TensorRole::kInput ||
                             t.role == isa::TensorRole::kInputOutput ||
                             t.role == isa::TensorRole::kConstant;
    if (!initialised)
      isa::fail(what, "not an input but has data", "role input, inputoutput or constant");
    trace.data.resize(std::max<std::size_t>(trace.data.size(), id + 1));
    trace.data[id] = read_data(what + ".data", *data);
  }
}

void read_loc(std::string_view what, Json value, isa::Program& program, std::uint32_t& file,
              std::uint32_t& line) {
  const std::string_view text = value.is(JsonType::kString) ? value.text() : std::string_view{};
  const std::size_t colon = text.rfind(':');
  std::uint32_t number = 0;
  bool ok = colon != std::string_view::npos && colon > 0;
  if (ok) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    ok = ec == std::errc{} && end == digits.data() + digits.size() && !digits.empty();
  }
  if (!ok) isa::fail(what, value.describe(), "\"file:line\"");
  file = program.add_file(text.substr(0, colon));
  line = number;
}

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
  const bool counts = on_chip && trace.program->virtual_addresses();  // to the compiler, at a loop
  if (counts && t.born != 0 && !trace.program->control_flow().empty()) w.integer("born", t.born);
  if (t.file != 0)
    w.text("loc", trace.program->files().at(t.file - 1) + ":" + std::to_string(t.line));
  if (const DataSource& s = trace.source(id); s.kind != DataSource::Kind::kNone) {
    w.begin("data");
    write_data(out, s, trace.folder, folder);
  }
  w.end();
  out += '}';
  return out;
}

}  // namespace nkisim
