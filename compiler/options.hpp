// Declares the compiler's options, from one table of switches (options.def). The command line, the
// environment variables, Python's SWITCHES and the table of docs/compiler.md come from it too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// The origin of a program for the compiler.
struct Origin {
  bool open = false;    // its on-chip tensors without an address are to be given one
  bool legacy = false;  // recorded from neuronxcc.nki, whose compiler decides otherwise
};

/// The choice of every switch, by its name: one of the table's texts.
struct CompilerOptions {
#define NKISIM_SWITCH(type, name, ...) std::string_view name;
#include "compiler/options.def"
#undef NKISIM_SWITCH
  /// Proves after each pass that outputs keep their values (analysis/pass_check.hpp): no switch,
  /// since it changes no program. NKISIM_CHECK_PASSES sets it.
  bool check_passes = false;
};

// The choices of each switch, as the table has them: DmaQueues::k_split.
#define NKISIM_CHOICES2(a, b) k_##a, k_##b
#define NKISIM_CHOICES3(a, b, c) k_##a, k_##b, k_##c
#define NKISIM_CHOICES4(a, b, c, d) k_##a, k_##b, k_##c, k_##d
#define NKISIM_CHOICES5(a, b, c, d, e) k_##a, k_##b, k_##c, k_##d, k_##e
#define NKISIM_SWITCH(type, name, count, choices, ...) \
  enum class type : std::uint8_t { NKISIM_CHOICES##count choices };
#include "compiler/options.def"
#undef NKISIM_SWITCH
#undef NKISIM_CHOICES2
#undef NKISIM_CHOICES3
#undef NKISIM_CHOICES4
#undef NKISIM_CHOICES5

// The text of a choice.
#define NKISIM_SWITCH(type, ...) [[nodiscard]] std::string_view name(type choice);
#include "compiler/options.def"
#undef NKISIM_SWITCH

/// Choices for the passes: no switch is `auto` any more.
struct Choices {
#define NKISIM_SWITCH(type, name, ...) type name{};
#include "compiler/options.def"
#undef NKISIM_SWITCH
};

/// One line of the table.
struct Switch {
  /// The stage that a switch acts in: a recorded program can still follow kCompiling.
  enum class Stage : std::uint8_t { kRecording, kCompiling };
  std::string_view name;                  // as in Python
  std::vector<std::string_view> choices;  // the first is the default for kernels
  std::string_view of_trace;              // the default for a trace that is placed already
  std::string_view nki, neuronxcc;        // what `auto` is for each; empty: there is none
  Stage stage;
  std::string_view what;   // it does, in Markdown
  std::string_view brief;  // the same in one line, for --help-compiler
  std::string_view CompilerOptions::*value;

  /// The meaning of `auto` for a program of the new API or of neuronxcc.nki on a generation.
  [[nodiscard]] std::string_view automatic(bool legacy, isa::Generation generation) const;
  [[nodiscard]] bool flag() const { return choices.size() >= 2 && choices[1] == "yes"; }
  [[nodiscard]] std::string option() const;    // "dma-queues"
  [[nodiscard]] std::string variable() const;  // "NKISIM_DMA_QUEUES"
};

/// All switches, in the table's order.
[[nodiscard]] std::span<const Switch> switches();

/// Looks a switch up that was chosen by somebody; nothing if it was not.
using Chosen = std::function<std::optional<std::string>(const Switch&)>;

/// The options of a kernel: `chosen`, else NKISIM_..., else the default. Throws a usage Error that
/// lists the choices.
[[nodiscard]] CompilerOptions kernel_options(const Chosen& chosen);
/// The options of a placed trace: `chosen`, else the default for traces.
[[nodiscard]] CompilerOptions trace_options(const Chosen& chosen);

/// The options of one program. `auto` becomes its meaning for the program's API and generation.
/// Choices that exclude each other, or that the program does not allow, give way. Nothing else
/// decides that.
[[nodiscard]] CompilerOptions resolved(CompilerOptions options, Origin origin,
                                       const isa::Program& program);
/// The same as values; `options` are resolved.
[[nodiscard]] Choices choices_of(const CompilerOptions& options);

/// The choice of a switch that a compiled program can have followed.
struct NamedChoice {
  std::string_view name, choice;
};
/// All of them, for reports.
[[nodiscard]] std::vector<NamedChoice> named_choices(const CompilerOptions& options);

/// The table of docs/compiler.md.
[[nodiscard]] std::string switches_as_markdown();

}  // namespace nkisim::compiler
