// What the compiler is told: one table of switches, options.def, from which come this struct, the
// command line, the environment variables, Python's SWITCHES and the table of docs/compiler.md.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim::compiler {

/// The choice of every switch, by its name: one of the table's texts.
struct CompilerOptions {
#define NKISIM_SWITCH(name, choices, of_trace, stage, what) std::string_view name;
#include "compiler/options.def"
#undef NKISIM_SWITCH
};

/// One line of the table.
struct Switch {
  /// Whether a recorded program can still follow it.
  enum class Stage : std::uint8_t { kRecording, kCompiling };
  std::string_view name;                  // as in Python
  std::vector<std::string_view> choices;  // the first is the default for kernels
  std::string_view of_trace;              // the default for a trace that is placed already
  Stage stage;
  std::string_view what;  // it does, in Markdown
  std::string_view CompilerOptions::*value;

  [[nodiscard]] bool flag() const { return choices.size() >= 2 && choices[1] == "yes"; }
  [[nodiscard]] std::string option() const;    // "dma-queues"
  [[nodiscard]] std::string variable() const;  // "NKISIM_DMA_QUEUES"
};

/// All switches, in the table's order.
[[nodiscard]] std::span<const Switch> switches();

/// Looks a switch up that was chosen by somebody; nothing if it was not.
using Chosen = std::function<std::optional<std::string>(const Switch&)>;

/// What a kernel is compiled with: `chosen`, else NKISIM_..., else the default. Throws a usage
/// Error that lists the choices.
[[nodiscard]] CompilerOptions kernel_options(const Chosen& chosen);
/// What a placed trace is compiled with: `chosen`, else the default for traces.
[[nodiscard]] CompilerOptions trace_options(const Chosen& chosen);

/// The table of docs/compiler.md.
[[nodiscard]] std::string switches_as_markdown();

}  // namespace nkisim::compiler
