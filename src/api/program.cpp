// Implements the classes for programs and machines of the public C++ API (include/nkisim).
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "src/api/inside.hpp"
#include "src/config/config.hpp"

namespace nkisim::v1 {
namespace {
namespace of_program {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kSpaces = {"hbm", "sbuf", "psum"};
constexpr std::array<const char*, 4> kRoles = {"internal", "input", "output", "inputoutput"};

Space space_of(isa::Space space) {
  if (space == isa::Space::kSbuf) return Space::kSbuf;
  return space == isa::Space::kPsum ? Space::kPsum : Space::kHbm;
}

Role role_of(isa::TensorRole role) {
  switch (role) {
    case isa::TensorRole::kInput:
      return Role::kInput;
    case isa::TensorRole::kOutput:
      return Role::kOutput;
    case isa::TensorRole::kInputOutput:
      return Role::kInputOutput;
    default:
      return Role::kInternal;
  }
}

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, Value::List>) {
          Json list = Json::array();
          for (const Value& one : held) list.push_back(json_of(one));
          return list;
        } else {
          return held;
        }
      },
      value.held());
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace of_program
}  // namespace

Error public_error(const isa::Error& error) {
  const bool kernel = !error.kernel_file().empty();
  const std::uint32_t line = kernel ? error.loc().kernel_line : error.loc().trace_line;
  return {error.what(),
          {.rule = std::string(isa::info(error.rule()).id),
           .message = error.message(),
           .instruction = error.instruction(),
           .file = kernel ? error.kernel_file() : error.trace_file(),
           .line = static_cast<int>(line),
           .exit_code = exit_code_of(error)}};
}

Config::Config(std::string name, std::vector<std::string> set)
    : name_(std::move(name)), set_(std::move(set)) {
  target_ = translated([this] { return load_config(name_, set_).target; });
}

std::string Config::json() const {
  return translated([this] {
    nlohmann::json config = load_config_json(name_);
    for (const std::string& one : set_) {
      const std::size_t equals = one.find('=');
      apply_override(config, one.substr(0, equals), one.substr(equals + 1));
    }
    return config.dump(2);
  });
}

Program Program::read(const std::string& path) {
  return Program(translated([&] { return std::make_shared<Inside>(path, read_trace(path)); }));
}

Program Program::parse(std::string bytes, std::string name) {
  return Program(translated([&] {
    auto inside = std::make_shared<Inside>(name, read_trace_text(bytes, name));
    inside->programs.provide(std::move(name), std::move(bytes));
    return inside;
  }));
}

std::size_t Program::instructions() const { return inside_->trace.program->insts().size(); }

std::string Program::target() const {
  return std::string(inside_->trace.program->machine().target);
}

std::vector<TensorInfo> Program::tensors() const {
  std::vector<TensorInfo> all;
  for (const isa::Tensor& t : inside_->trace.program->tensors()) {
    all.push_back({.name = t.name,
                   .dtype = std::string(isa::name(t.dtype)),
                   .space = of_program::space_of(t.space),
                   .role = of_program::role_of(t.role),
                   .shape = {t.shape.begin(), t.shape.end()}});
  }
  return all;
}

std::string Program::text() const { return format_trace(inside_->trace, TraceForm::kText); }

void Program::save(const std::string& path) const {
  translated([&] { write_trace(inside_->trace, path); });
}

// ---- ProgramBuilder: lines of the trace format -------------------------------------------------

struct ProgramBuilder::Lines {
  std::string target = {}, name = {}, body = {}, loc = {};
  bool placed = false;  // an on-chip tensor has an address
};

ProgramBuilder::ProgramBuilder(std::string target, std::string name)
    : lines_(new Lines{.target = std::move(target), .name = std::move(name)}) {}

ProgramBuilder::~ProgramBuilder() = default;

std::string ProgramBuilder::tensor(const TensorSpec& spec) {
  of_program::Json t = {{"name", spec.name},
                        {"space", of_program::kSpaces.at(static_cast<std::size_t>(spec.space))},
                        {"dtype", spec.dtype},
                        {"shape", spec.shape}};
  if (spec.role != Role::kInternal) {
    t["role"] = of_program::kRoles.at(static_cast<std::size_t>(spec.role));
  }
  if (spec.address) t["address"] = *spec.address;
  if (spec.core != 0) t["core"] = spec.core;
  if (!lines_->loc.empty()) t["loc"] = lines_->loc;
  lines_->placed = lines_->placed || (spec.address && spec.space != Space::kHbm);
  lines_->body += of_program::line_of({{"tensor", t}});
  return spec.name;
}

ProgramBuilder& ProgramBuilder::add(std::string_view instruction, Arguments arguments) {
  of_program::Json line = {{"i", instruction}};
  for (const auto& [name, value] : arguments) line[std::string(name)] = of_program::json_of(value);
  if (!lines_->loc.empty()) line.emplace("loc", lines_->loc);
  lines_->body += of_program::line_of(line);
  return *this;
}

ProgramBuilder& ProgramBuilder::at(std::string file, int line) {
  lines_->loc = std::move(file) + ':' + std::to_string(line);
  return *this;
}

Program ProgramBuilder::finish() {
  const Lines made = std::exchange(*lines_, {.target = lines_->target, .name = lines_->name});
  of_program::Json header = {{"nisa", 1}, {"target", made.target}, {"name", made.name}};
  if (!made.placed) header["addresses"] = "open";
  return Program::parse(of_program::line_of(header) + made.body, made.name);
}

}  // namespace nkisim::v1
