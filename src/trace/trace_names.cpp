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

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string list_names(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

std::string_view nearest(std::string_view wrong, const std::vector<std::string_view>& names) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const std::string_view candidate : names) {
    const std::size_t distance = edit_distance(wrong.substr(0, 64), candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest(std::string_view wrong, const std::vector<std::string_view>& names) {
  const std::string_view name = nearest(wrong, names);
  return name.empty() ? std::string{} : "; did you mean " + std::string(name) + "?";
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
  if (names.size() <= 12) isa::fail(isa::Rule::opcode_text, param.name, found, list_names(names));
  const std::string what =
      param.kind == isa::ParamKind::kDtype ? "a dtype" : std::string(traits(param.kind).required);
  isa::fail(isa::Rule::opcode_text, param.name, found, what + suggest(text, names));
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
