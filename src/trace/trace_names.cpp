// Finds the enumerators of instruction parameters by name, and suggests names for misspelt ones.

#include "src/trace/trace_names.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "isa/base/error.hpp"

namespace nkisim {
namespace {

template <typename E>
std::vector<std::string_view> names_of(int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name(static_cast<E>(i)));
  return names;
}

std::vector<std::string_view> names_of(const isa::Param& param) {
  switch (param.kind) {
    case isa::ParamKind::kAlu:
      return names_of<isa::AluOp>(isa::kAluOpCount);
    case isa::ParamKind::kAct:
      return names_of<isa::ActFn>(isa::kActFnCount);
    case isa::ParamKind::kDtype:
      return names_of<isa::Dtype>(isa::kDtypeCount);
    default:
      return {param.choices.begin(), param.choices.end()};
  }
}

template <typename E>
std::optional<std::int64_t> as_integer(std::optional<E> value) {
  if (!value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<std::int64_t> find_choice(const isa::Param& param, std::string_view text) {
  switch (param.kind) {
    case isa::ParamKind::kAlu:
      return as_integer(isa::parse_alu(text));
    case isa::ParamKind::kAct:
      return as_integer(isa::parse_act(text));
    case isa::ParamKind::kDtype:
      return as_integer(isa::parse_dtype(text));
    default:
      break;
  }
  for (std::size_t i = 0; i < param.choices.size(); ++i) {
    if (param.choices[i] == text) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

isa::Rule rule_of(isa::ParamKind kind) {
  switch (kind) {
    case isa::ParamKind::kAlu:
      return isa::Rule::unknown_operator;
    case isa::ParamKind::kAct:
      return isa::Rule::unknown_function;
    case isa::ParamKind::kDtype:
      return isa::Rule::unknown_dtype;
    default:
      return isa::Rule::unknown_choice;
  }
}

}  // namespace

std::string list_names(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

bool valid_tensor_name(std::string_view name) {
  if (name.empty() || name.size() > 256 || name == "inf" || name == "nan") return false;
  const auto first = static_cast<unsigned char>(name.front());
  if (std::isdigit(first) != 0 || name.front() == '+' || name.front() == '-' ||
      name.front() == '$' || name.front() == '.') {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '[' && c != ']' && c != '"' && c != '\\' &&
           c != '\x7f';
  });
}

std::int64_t parse_choice(isa::Program& program, const isa::Param& param, std::string_view text) {
  if (param.kind == isa::ParamKind::kOpcode) {
    if (text.empty() || text.size() > 64)
      isa::fail(isa::Rule::opcode_text, param.name, "\"\"", "an opcode");
    return static_cast<std::int64_t>(program.add_opcode(text));
  }
  if (const auto value = find_choice(param, text)) return *value;
  const auto names = names_of(param);
  const std::string found = "\"" + std::string(text.substr(0, 80)) + "\"";
  const std::string what = names.size() <= 12 ? list_names(names)
                           : param.kind == isa::ParamKind::kDtype
                               ? "a dtype"
                               : std::string(traits(param.kind).required);
  isa::fail(rule_of(param.kind), param.name, found, what, suggest(text, names));
}

std::string_view choice_name(const isa::Program& program, const isa::Param& param,
                             std::int64_t value) {
  if (param.kind == isa::ParamKind::kOpcode) {
    return program.opcode_name(static_cast<isa::Opcode>(value));
  }
  const auto names = names_of(param);
  const auto i = static_cast<std::size_t>(value);
  return value < 0 || i >= names.size() ? std::string_view{} : names[i];
}

}  // namespace nkisim
