// Reads the compiler's switches from a caller or the environment, and resolves the value `auto`.
#include "compiler/options.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "isa/base/error.hpp"

namespace nkisim::compiler {
namespace {

// "(auto, one)" without the parentheses.
std::vector<std::string_view> split(std::string_view choices) {
  constexpr std::string_view kComma = ", ";
  std::vector<std::string_view> out;
  choices = choices.substr(1, choices.size() - 2);
  while (true) {
    const std::size_t comma = choices.find(kComma);
    out.push_back(choices.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    choices.remove_prefix(comma + kComma.size());
  }
}

std::string joined(std::span<const std::string_view> words, std::string_view quote) {
  std::string out;
  for (const std::string_view word : words) {
    if (!out.empty()) out += ", ";
    out.append(quote).append(word).append(quote);
  }
  return out;
}

// Any text of an environment variable sets a flag, but for "0" and "no".
std::optional<std::string> from_environment(const Switch& s) {
  const char* text = std::getenv(s.variable().c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string value(text);
  if (!s.flag() || std::count(s.choices.begin(), s.choices.end(), value) != 0) return value;
  return value == "0" ? "no" : "yes";
}

bool checks_passes() {
  const char* text = std::getenv("NKISIM_CHECK_PASSES");
  return text != nullptr && std::string_view(text) != "" && std::string_view(text) != "0";
}

void choose(const Switch& s, const std::string& value, CompilerOptions& options) {
  const auto found = std::find(s.choices.begin(), s.choices.end(), value);
  if (found == s.choices.end()) {
    throw isa::Error(isa::Rule::compiler_switch, std::string(s.name) + " is '" + value +
                                                     "'; one of " + joined(s.choices, "") +
                                                     " is required");
  }
  options.*s.value = *found;
}

}  // namespace

std::string Switch::option() const {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string Switch::variable() const {
  std::string out = "NKISIM_" + std::string(name);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string_view Switch::automatic(bool legacy, isa::Generation generation) const {
  const std::string_view all = legacy ? neuronxcc : nki;
  const std::size_t bar = all.find('|');
  if (bar == std::string_view::npos) return all;
  return generation < isa::Generation::kV3 ? all.substr(0, bar) : all.substr(bar + 1);
}

std::span<const Switch> switches() {
  static const std::vector<Switch> kSwitches = {
#define NKISIM_SWITCH(type, name, count, choices, of_trace, nki, neuronxcc, stage, what, brief) \
  {#name, split(#choices),       of_trace, nki, neuronxcc, Switch::Stage::stage, what,          \
   brief, &CompilerOptions::name},
#include "compiler/options.def"
#undef NKISIM_SWITCH
  };
  return kSwitches;
}

CompilerOptions kernel_options(const Chosen& chosen) {
  CompilerOptions options;
  options.check_passes = checks_passes();
  for (const Switch& s : switches()) {
    auto value = chosen(s);
    if (!value) value = from_environment(s);
    choose(s, value.value_or(std::string(s.choices.front())), options);
  }
  return options;
}

CompilerOptions trace_options(const Chosen& chosen) {
  CompilerOptions options;
  options.check_passes = checks_passes();
  for (const Switch& s : switches()) {
    choose(s, chosen(s).value_or(std::string(s.of_trace)), options);
  }
  return options;
}

#define NKISIM_SWITCH(type, name_, count, choices, ...)                  \
  std::string_view name(type choice) {                                   \
    static const std::vector<std::string_view> kTexts = split(#choices); \
    return kTexts.at(static_cast<std::size_t>(choice));                  \
  }
#include "compiler/options.def"
#undef NKISIM_SWITCH

CompilerOptions resolved(CompilerOptions options, Origin origin, const isa::Program& program) {
  const bool free = program.control_flow().empty() && !program.explicit_semaphores();
  const bool merges = options.transfers != "auto" || options.descriptors != "static";
  for (const Switch& s : switches()) {
    std::string_view& choice = options.*s.value;
    if (choice == "auto") choice = s.automatic(origin.legacy, program.machine().generation);
  }
  if (!merges) options.transfers = "none";  // no profile with static descriptors shows a merged one
  if (!free) options.descriptors = "dynamic";
  if (options.descriptors == "static" && options.dma_queues == "software") {
    options.dma_queues = "split";  // static descriptors are not written at run time
  }
  return options;
}

Choices choices_of(const CompilerOptions& options) {
  Choices out;
  const auto number = [&](const Switch& s) {
    return std::find(s.choices.begin(), s.choices.end(), options.*s.value) - s.choices.begin();
  };
  auto next = switches().begin();
#define NKISIM_SWITCH(type, name, ...) out.name = static_cast<type>(number(*next++));
#include "compiler/options.def"
#undef NKISIM_SWITCH
  return out;
}

std::vector<NamedChoice> named_choices(const CompilerOptions& options) {
  std::vector<NamedChoice> out;
  for (const Switch& s : switches()) {
    if (s.stage == Switch::Stage::kCompiling) out.push_back({s.name, options.*s.value});
  }
  return out;
}

std::string switches_as_markdown() {
  std::string out =
      "| switch | default | other | of a placed trace | what the default does |\n"
      "|---|---|---|---|---|\n";
  const auto cell = [&out](std::string_view text) { out.append(" ").append(text).append(" |"); };
  for (const Switch& s : switches()) {
    const std::span<const std::string_view> names(&s.name, 1), all(s.choices),
        trace(&s.of_trace, 1);
    out += '|';
    cell(joined(names, "`"));
    cell(joined(all.first(1), "`"));
    cell(joined(all.subspan(1), "`"));
    cell(s.stage == Switch::Stage::kRecording ? "recording only" : joined(trace, "`"));
    cell(s.what);
    out += '\n';
  }
  return out;
}

}  // namespace nkisim::compiler
