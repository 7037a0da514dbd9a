// Reads the machine, the semaphores and the tensors that a trace (a file of instructions) declares.

#include "src/trace/trace_declare.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "isa/base/real.hpp"
#include "src/files/json_text.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_names.hpp"
#include "src/trace/trace_reader.hpp"

namespace nkisim {
namespace {

using isa::fail, isa::Rule;

constexpr int kMaxCores = 256;

template <std::size_t N>
std::vector<std::string_view> as_vector(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

std::string text_member(std::string_view what, Json object, std::string_view key) {
  const auto value = object.find(key);
  if (!value) return {};
  if (!value->is(JsonType::kString)) {
    fail(Rule::trace_field, std::string(what) + "." + std::string(key), value->describe(),
         "a text");
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
    fail(Rule::trace_field, std::string(what) + "." + std::string(key), value->describe(),
         list_names(as_vector(names)));
  }
  return *index;
}

bool bool_member(std::string_view what, Json object, std::string_view key) {
  const auto value = object.find(key);
  if (!value) return false;
  if (!value->is(JsonType::kBool)) {
    fail(Rule::trace_field, std::string(what) + "." + std::string(key), value->describe(),
         "true or false");
  }
  return value->integer() != 0;
}

// The sizes that a header's "machine" changes.
isa::Machine read_sizes(Json header, isa::Machine machine) {
  const auto given = header.find("machine");
  if (!given) return machine;
  if (!given->is(JsonType::kObject)) {
    fail(Rule::trace_header, "header.machine", given->describe(), "an object of sizes");
  }
  std::string hash;
  for (const Json size : *given) {
    const std::string key(size.key());
    if (key == "hash" && size.is(JsonType::kString)) {
      hash = size.text();
    } else if (!size.is(JsonType::kInt) || size.integer() < 1 ||
               !isa::set_size(machine, key, size.integer())) {
      fail(Rule::trace_header, "header.machine", "\"" + key + "\": " + size.describe(),
           "a size as a config has it (configs/README.md)");
    }
  }
  if (hash != isa::machine_hash(machine)) {
    fail(Rule::trace_header, "header.machine", "of hash \"" + hash + "\"",
         "that of its sizes, \"" + isa::machine_hash(machine) + "\",");
  }
  return machine;
}

// A program for one machine is none for another; names the first size in which they differ.
void check_same(const isa::Machine& of_trace, const isa::Machine& of_run) {
  const std::vector<isa::MachineSize> a = sizes(of_trace), b = sizes(of_run);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].value == b[i].value) continue;
    fail(Rule::trace_target, "the trace's machine",
         "one with " + std::string(a[i].key) + " = " + std::to_string(a[i].value),
         "the config's " + std::to_string(b[i].value));
  }
}

isa::Machine read_machine(Json header, const ReadOptions& options) {
  const std::string own = text_member("header", header, "target");
  if (own.empty()) fail(Rule::trace_header, "header.target", "missing", "trn1, inf2, trn2 or trn3");
  if (isa::find_target(own) != own) {
    fail(Rule::trace_header, "header.target", "\"" + own + "\"", "trn1, inf2, trn2 or trn3");
  }
  const isa::Machine declared = read_sizes(header, *isa::find_machine(own));
  isa::Machine machine = declared;
  if (!options.target.empty()) {
    const auto asked = isa::find_machine(options.target);
    if (!asked) {
      fail(Rule::trace_target, "target", "\"" + options.target + "\"", isa::known_targets());
    }
    machine = asked->target == declared.target ? declared : *asked;
  }
  if (!options.machine) return machine;
  const isa::Machine of_run = options.machine(machine.target);
  if (of_run.target != machine.target) return machine;  // refused with the config
  if (header.find("machine")) check_same(machine, of_run);
  return of_run;
}

void check_version(Json header) {
  const auto version = header.find("nisa");
  if (!version) {
    fail(Rule::trace_header,
         "the first line is not a trace header; an object with \"nisa\": 1 is required");
  }
  if (!version->is(JsonType::kInt) || version->integer() != kTraceVersion) {
    fail(Rule::trace_header, "header.nisa", "version " + version->describe(),
         "version " + std::to_string(kTraceVersion));
  }
}

void read_semaphore_names(Json header, TraceFile& trace) {
  const auto names = header.find("semaphore_names");
  if (!names) return;
  if (!names->is(JsonType::kObject)) {
    fail(Rule::trace_header, "header.semaphore_names", names->describe(),
         "an object of number: name");
  }
  for (const Json entry : *names) {
    const std::string key(entry.key());
    const bool digits =
        !key.empty() && key.size() <= 5 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stol(key) > 65535 || !entry.is(JsonType::kString)) {
      fail(Rule::trace_header, "header.semaphore_names", "\"" + key + "\": " + entry.describe(),
           "a semaphore number from 0 to 65535 with a name");
    }
    trace.semaphore_names[static_cast<std::uint16_t>(std::stol(key))] = std::string(entry.text());
  }
}

// {"kernel.py": its text}
void read_source_texts(Json header, isa::Program& program) {
  const auto sources = header.find("sources");
  if (!sources) return;
  const std::string required = "an object of file names with their texts";
  if (!sources->is(JsonType::kObject)) {
    fail(Rule::trace_header, "header.sources", sources->describe(), required);
  }
  for (const Json text : *sources) {
    if (!text.is(JsonType::kString)) {
      fail(Rule::trace_header, "header.sources", text.describe(), required);
    }
    program.add_source(std::string(text.key()), std::string(text.text()));
  }
}

double real_member(std::string_view what, Json object, std::string_view key, double fallback) {
  const auto value = object.find(key);
  if (!value) return fallback;
  if (!value->is_number()) {
    fail(Rule::trace_field, std::string(what) + "." + std::string(key), value->describe(),
         "a number");
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
    fail(Rule::trace_data, std::string(what) + ".generator", data.find("generator")->describe(),
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
      fail(Rule::trace_data, std::string(what), "an integers generator with a bad range",
           "whole low < high within 2^53");
    }
  }
}

DataSource read_data(std::string_view what, Json data) {
  DataSource source;
  if (!data.is(JsonType::kObject)) fail(Rule::trace_data, what, data.describe(), "an object");
  check_keys(what, data,
             {"npy", "npz", "key", "generator", "seed", "low", "high", "mean", "scale", "start",
              "step", "values", "per_rank"});
  const bool npy = data.find("npy").has_value(), npz = data.find("npz").has_value();
  const bool generator = data.find("generator").has_value();
  const auto values = data.find("values");
  if (npy + npz + generator + values.has_value() != 1) {
    fail(Rule::trace_data, what, "without one source", "one of npy, npz, generator or values");
  }
  if (npy || npz) {
    source.kind = npy ? DataSource::Kind::kNpy : DataSource::Kind::kNpz;
    source.file = text_member(what, data, npy ? "npy" : "npz");
    source.key = text_member(what, data, "key");
    if (source.file.empty() || (npz && source.key.empty())) {
      fail(Rule::trace_data, what, "without a file name or key",
           npz ? "\"npz\" and \"key\"" : "\"npy\"");
    }
  } else if (generator) {
    read_generator(what, data, source);
  } else {
    source.kind = DataSource::Kind::kValues;
    for (const Json v : *values) source.values.push_back(read_real(what, v));
    if (!values->is(JsonType::kArray) || source.values.empty()) {
      fail(Rule::trace_data, what, "values " + values->describe(), "a list of numbers");
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
    fail(Rule::trace_tensor, std::string(what) + ".shape", list ? list->describe() : "missing",
         required);
  }
  for (const Json v : *list) {
    if (!v.is(JsonType::kInt) || v.integer() < 1 || v.integer() > isa::kMostElements / elements) {
      fail(Rule::trace_tensor, std::string(what) + ".shape", "a list with " + v.describe(),
           required);
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
  if (!parsed) fail(Rule::unknown_dtype, what + ".dtype", "\"" + dtype + "\"", "a dtype name");
  t.dtype = *parsed;
  t.role = static_cast<isa::TensorRole>(name_member(what, json, "role", kRoleNames, 0));
  t.shape = read_shape(what, json);
  t.core = static_cast<std::uint8_t>(int_member(what, json, "core", 0, trace.cores - 1, 0));
  const bool on_chip = t.space != isa::Space::kHbm;
  const bool placed = on_chip && !trace.program->virtual_addresses();
  t.address = int_member(what, json, "address", 0, kMaxAddress,
                         placed ? std::nullopt : std::optional<std::int64_t>(0));
  if (!on_chip && json.find("partition"))
    fail(Rule::trace_tensor, what, "in HBM with a partition", "none");
  t.partition =
      static_cast<std::uint16_t>(int_member(what, json, "partition", 0, isa::kPartitions - 1, 0));
  if (on_chip && t.shape[0] > isa::kPartitions) {
    fail(Rule::trace_tensor, what + ".shape", std::to_string(t.shape[0]) + " partitions",
         "at most 128");
  }
  if (on_chip && t.role != isa::TensorRole::kInternal) {
    fail(Rule::trace_tensor, what + ".role",
         std::string(kRoleNames.at(static_cast<std::size_t>(t.role))) + " in " +
             std::string(isa::name(t.space)),
         "HBM");
  }
  t.fixed = on_chip && trace.open && json.find("address").has_value();
  t.spill = bool_member(what, json, "spill");
  if (t.spill && (on_chip || t.role != isa::TensorRole::kInternal)) {
    fail(Rule::trace_tensor, what + ".spill", "true", "an internal tensor in HBM");
  }
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
  fail(Rule::trace_field, what, value.describe(),
       "a number (or \"inf\", \"-inf\", \"nan\", a hex float)");
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
      isa::read_real(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  if (ec != std::errc{} || end != text.data() + text.size() || text.front() == '-') {
    return std::nullopt;
  }
  return negative ? -value : value;
}

void read_header(Json header, const std::string& trace_name, const ReadOptions& options,
                 TraceFile& trace) {
  if (!header.is(JsonType::kObject)) {
    fail(Rule::trace_header,
         "the first line is not a trace header; an object with \"nisa\": 1 is required");
  }
  check_version(header);
  check_keys(
      "header", header,
      {"nisa", "target", "machine", "name", "about", "stream", "semaphores", "timing_only", "cores",
       "ranks", "addresses", "api", "sdk", "semaphore_names", "files", "tensors", "sources"});
  trace.program = std::make_unique<isa::Program>(read_machine(header, options), trace_name);
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
    fail(Rule::trace_header, "header.semaphores", "explicit in a program with open addresses",
         "derived");
  }
  program.set_sdk(isa::Program::kOldestSdk +
                  static_cast<int>(name_member("header", header, "sdk", kSdks, kSdks.size() - 1)));
  program.set_allow_over_capacity(options.allow_over_capacity);
  read_semaphore_names(header, trace);
  if (const auto files = header.find("files")) {
    for (const Json file : *files) {
      if (!file.is(JsonType::kString))
        fail(Rule::trace_header, "header.files", file.describe(), "a list of texts");
      program.add_file(file.text());
    }
  }
  read_source_texts(header, program);
  if (const auto tensors = header.find("tensors")) {
    if (!tensors->is(JsonType::kArray)) {
      fail(Rule::trace_header, "header.tensors", tensors->describe(), "a list of tensors");
    }
    for (const Json tensor : *tensors) read_tensor(tensor, trace);
  }
}

void read_tensor(Json json, TraceFile& trace) {
  if (!json.is(JsonType::kObject)) fail(Rule::trace_tensor, "tensor", json.describe(), "an object");
  const std::string tensor_name = text_member("tensor", json, "name");
  if (!valid_tensor_name(tensor_name)) {
    fail(Rule::trace_tensor, "tensor.name", "\"" + tensor_name.substr(0, 80) + "\"",
         "a name without blanks or []\"\\ that does not look like a number");
  }
  const std::string what = "tensor " + tensor_name;
  check_keys(what, json,
             {"name", "space", "dtype", "shape", "role", "address", "partition", "core", "born",
              "spill", "loc", "data"});
  const std::uint32_t id = trace.program->add_tensor(read_tensor_fields(what, json, trace));
  if (const auto data = json.find("data")) {
    const isa::Tensor& t = trace.program->tensor(id);
    const bool initialised = t.role == isa::TensorRole::kInput ||
                             t.role == isa::TensorRole::kInputOutput ||
                             t.role == isa::TensorRole::kConstant;
    if (!initialised)
      fail(Rule::trace_tensor, what, "not an input but has data",
           "role input, inputoutput or constant");
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
  if (!ok) fail(Rule::trace_field, what, value.describe(), "\"file:line\"");
  file = program.add_file(text.substr(0, colon));
  line = number;
}

}  // namespace nkisim
