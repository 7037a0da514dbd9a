// Runs the tables of instruction tests: isa/ops/*.cases.json.
//
// A case: "tensors" as in a program file's header (on-chip ones without addresses, or with
// "addresses": "physical"), "cores" (1), "set" (initial values by tensor name, row-major),
// "program" (instruction lines), and what must come out: "expect" (values by tensor name, exact
// unless "rtol"/"atol" are given; null = undefined), "error" (substring of the message) or "parts"
// (of the last instruction; only the keys given are compared).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "isa/machine/memory.hpp"
#include "isa/world/interpreter.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim;
using json = nlohmann::json;

namespace {

std::uint32_t feature_bit(const std::string& feature) {
  const auto known = isa::parse_feature(feature);
  if (!known) throw std::runtime_error("no feature " + feature);
  return *known;
}

/// A failed requirement ends its case, not the whole run.
void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("no " + what);
}

double number(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "-inf" ? -infinity : infinity;
}

/// Row-major bytes of a tensor from its values; one value stands for all.
std::vector<std::byte> bytes_of(const isa::Tensor& t, const json& values) {
  const auto count = static_cast<std::size_t>(t.elements());
  const std::size_t width = isa::is_packed(t.dtype) ? 4 : 1;
  std::vector<double> all;
  for (const json& v : values) all.push_back(number(v));
  if (all.size() == 1) all.resize(count * width, all[0]);
  require(all.size() == count * width, "values for every element of " + t.name);
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(isa::size_bytes(t.dtype)));
  if (t.dtype == isa::Dtype::kInt64) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto v = static_cast<std::int64_t>(all[i]);
      std::memcpy(bytes.data() + i * sizeof v, &v, sizeof v);
    }
  } else if (isa::is_integer(t.dtype)) {
    std::vector<std::uint32_t> words;
    for (double v : all) words.push_back(static_cast<std::uint32_t>(static_cast<std::int64_t>(v)));
    isa::encode_bits(t.dtype, words.data(), count, bytes.data());
  } else {
    std::vector<float> floats;
    for (double v : all) floats.push_back(static_cast<float>(v));
    isa::encode(t.dtype, floats.data(), count, bytes.data());
  }
  return bytes;
}

struct Case {
  json text;
  TraceFile trace;
  std::unique_ptr<isa::Memory> memory;

  explicit Case(json c) : text(std::move(c)) {
    json header = {{"nisa", 1},
                   {"target", text.value("target", "trn2")},
                   {"addresses", text.value("addresses", "virtual")},
                   {"tensors", text.at("tensors")}};
    if (text.contains("cores")) header["cores"] = text.at("cores");
    std::string lines = header.dump() + "\n";
    for (const json& inst : text.at("program")) lines += inst.dump() + "\n";
    trace = read_trace_text(lines, "case.jsonl");
  }
  std::uint32_t id(const std::string& name) const {
    const std::uint32_t* found = trace.program->find_tensor(name);
    require(found != nullptr, "tensor " + name);
    return *found;
  }
  void run() {
    memory = std::make_unique<isa::Memory>(*trace.program);
    const json initial = text.value("set", json::object());
    for (const auto& [name, values] : initial.items()) {
      const auto bytes = bytes_of(trace.program->tensor(id(name)), values);
      memory->write(id(name), bytes);
    }
    isa::InterpretOptions options;
    // The case says what is undefined; other rules are as --strict has them.
    options.conditions.rules =
        isa::RulePolicy({.strict = true, .warn = {"undefined_value", "output_partly_written"}});
    (void)isa::interpret(*trace.program, *memory, options);
  }
};

bool same(double found, double wanted, const json& c) {
  if (std::isnan(wanted)) return std::isnan(found);
  if (found == wanted) return std::signbit(found) == std::signbit(wanted);
  return std::abs(found - wanted) <= c.value("atol", 0.0) + c.value("rtol", 0.0) * std::abs(wanted);
}

void check_values(Case& c, const std::string& name, const json& wanted) {
  const std::uint32_t id = c.id(name);
  const isa::Tensor& t = c.trace.program->tensor(id);
  const auto size = isa::size_bytes(t.dtype);
  const auto count = static_cast<std::size_t>(t.elements());
  const std::size_t width = isa::is_packed(t.dtype) ? 4 : 1;
  const std::vector<std::byte> bytes = c.memory->read(id);
  std::vector<float> floats(count * width);
  isa::decode(t.dtype, bytes.data(), count, floats.data());
  std::vector<std::uint32_t> words(count);
  isa::decode_bits(t.dtype, bytes.data(), count, words.data());
  std::vector<bool> written(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i) * size;
    written[i] = c.memory->bits(id).find_undefined(at, size) < 0;
  }
  require(wanted.size() == floats.size(), "expected values for every element of " + name);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    INFO(name << " element " << i << ", wanted " << wanted[i]);
    CHECK(written[i / width] == !wanted[i].is_null());
    if (wanted[i].is_null()) continue;
    double found = static_cast<double>(floats[i]);
    if (t.dtype == isa::Dtype::kInt64) {
      std::int64_t exact = 0;
      std::memcpy(&exact, bytes.data() + i * sizeof exact, sizeof exact);
      found = static_cast<double>(exact);
    } else if (isa::is_integer(t.dtype)) {
      const auto exact = static_cast<std::int32_t>(words[i]);
      found = t.dtype == isa::Dtype::kUint32 ? static_cast<double>(words[i])
                                             : static_cast<double>(exact);
    }
    INFO("found " << found);
    CHECK(same(found, number(wanted[i]), c.text));
  }
}

void check_parts(const Case& c) {
  const isa::Program& program = *c.trace.program;
  isa::Expansion found;
  isa::expand(program.insts().back(), program.machine(), found);
  const json& wanted = c.text.at("parts");
  require(found.parts.size() == wanted.size(),
          "other number of parts than " + std::to_string(found.parts.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const isa::Part& part = found.parts[i];
    const std::map<std::string, std::int64_t> numbers = {
        {"elements", part.elements},
        {"partitions", part.partitions},
        {"rows", part.rows},
        {"columns", part.columns},
        {"operands", part.operands},
        {"sbuf_read_bytes", part.sbuf_read_bytes},
        {"sbuf_write_bytes", part.sbuf_write_bytes},
        {"psum_read_bytes", part.psum_read_bytes},
        {"psum_write_bytes", part.psum_write_bytes},
        {"features", part.features},
        {"flops", part.flops}};
    for (const auto& [key, value] : wanted[i].items()) {
      INFO("part " << i << " " << key);
      if (key == "opcode") {
        CHECK(program.opcode_name(part.opcode) == value.get<std::string>());
      } else if (key == "unit") {
        CHECK(isa::name(part.unit) == value.get<std::string>());
      } else if (key == "dtype") {
        CHECK(isa::name(part.dtype) == value.get<std::string>());
      } else if (key == "has" || key == "lacks") {
        for (const json& feature : value) {
          INFO(feature);
          CHECK(((part.features & feature_bit(feature.get<std::string>())) != 0) == (key == "has"));
        }
      } else {
        require(numbers.count(key) == 1, "quantity " + key);
        CHECK(numbers.at(key) == value.get<std::int64_t>());
      }
    }
  }
}

/// A transfer takes the time of its descriptors, so that these hold all bytes that its operands
/// say: of everything it reads, and of everything it writes. trn3 adds to a tile in place.
void check_moved(const isa::Program& program) {
  for (const isa::Inst& inst : program.insts()) {
    isa::Expansion found;
    isa::expand(inst, program.machine(), found);
    if (!found.is_dma || isa::spec(inst).name == "isa") continue;  // whose sizes are given
    const bool in_place = program.machine().generation >= isa::Generation::kV4;
    std::int64_t read = 0, written = 0;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool out) {
      if (out) written += ref.bytes();
      if (!out && param.name != "index" &&
          (param.kind == isa::ParamKind::kIn || param.kind == isa::ParamKind::kInList)) {
        read = in_place ? std::max(read, ref.bytes()) : read + ref.bytes();
      }
    });
    INFO(isa::spec(inst).name);
    CHECK(found.dma.bytes >= std::max(read, written));
    CHECK(found.dma.descriptors * found.dma.descriptor_bytes >= std::max(read, written));
  }
}

/// The other engines take the time of the elements that stream through them: as many as the widest
/// operand has in a partition, and they read and write all bytes of the operands. Gathers read what
/// their indices name, a search writes its count as well and reads some partitions, a barrier moves
/// nothing.
void check_streamed(const isa::Program& program) {
  const std::set<std::string_view> others = {"isa", "core_barrier", "nc_n_gather",
                                             "nonzero_with_count"};
  for (const isa::Inst& inst : program.insts()) {
    isa::Expansion found;
    isa::expand(inst, program.machine(), found);
    if (found.is_dma || found.parts.empty() || others.count(isa::spec(inst).name) == 1) continue;
    std::int64_t elements = 0, read = 0, written = 0, widest = 0, given = 0, stored = 0;
    bool indirect = false;
    for (const isa::Part& part : found.parts) {
      elements += part.elements * ((part.features & isa::kFeatDoubleRow) != 0 ? 2 : 1);
      read += part.sbuf_read_bytes + part.psum_read_bytes;
      written += part.sbuf_write_bytes + part.psum_write_bytes;
      indirect = indirect || (part.features & isa::kFeatIndirect) != 0;
    }
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool out) {
      if (ref.space == isa::Space::kHbm) return;
      (out ? stored : given) += ref.bytes();
      widest = std::max(widest, ref.columns());
    });
    INFO(isa::spec(inst).name);
    CHECK(elements >= widest);
    CHECK(written >= stored);
    if (!indirect) CHECK(read >= given);
  }
}

void run_case(const json& text) {
  if (text.contains("error")) {
    std::string message;
    try {
      Case c(text);
      c.run();
    } catch (const isa::Error& e) {
      CHECK(e.code() == isa::ErrorCode::kBadInput);
      message = e.what();
    }
    CHECK_THAT(message, Catch::Matchers::Contains(text.at("error").get<std::string>()));
    return;
  }
  Case c(text);
  check_moved(*c.trace.program);
  check_streamed(*c.trace.program);
  if (text.contains("parts")) check_parts(c);
  if (!text.contains("expect")) return;
  c.run();
  for (const auto& [name, wanted] : text.at("expect").items()) check_values(c, name, wanted);
}

std::set<std::filesystem::path> case_files() {
  std::set<std::filesystem::path> files;
  const std::filesystem::path folder = std::filesystem::path(source_folder()) / "isa" / "ops";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".cases.json")) files.insert(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("every case of every instruction") {
  for (const auto& file : case_files()) {
    std::ifstream in(file);
    for (const json& c : json::parse(in)) {
      INFO(file.filename().string() << ": " << c.at("case").get<std::string>());
      try {
        run_case(c);
      } catch (const std::exception& e) {
        FAIL_CHECK(e.what());
      }
    }
  }
}
