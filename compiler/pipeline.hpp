// Declares the compiler. Its passes change a program from the form that a kernel wrote to the form
// that the engines get: order, queues, addresses.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// One pass: a function on a program (compiler/passes, compiler/placement) and what it is for.
struct Pass {
  std::string_view name;
  PassResult (*run)(Unit& unit);
  std::string_view counts;  // what PassResult::changed is the number of
};

/// All passes, in the order in which they run.
[[nodiscard]] std::span<const Pass> pipeline();

/// The result of compiling a program.
struct Compiled {
  struct Step {
    std::string_view pass;
    std::size_t changed = 0;
    std::string text;  // in words
  };
  std::vector<Step> steps;  // by pass
  CompilerOptions choices;  // what it followed: resolved()
  std::string_view delay;   // Unit::delay
  bool packed = false;
  std::vector<MemoryPeak> peaks;
  std::optional<isa::Error> overflow;  // why a legacy kernel runs over capacity

  /// The number of changes that a pass of the pipeline made.
  [[nodiscard]] std::size_t changed(std::string_view pass) const;
};

/// Runs the pipeline. If `origin.open`, every on-chip tensor has its address afterwards and the
/// program's addresses are physical. It computes the same values. Throws isa::Error, located, if
/// the program is not one that can be compiled or its tiles fit in no order. The callback is called
/// for each pass when it is done. With CompilerOptions::check_passes an Error names the first pass
/// that changes a value. `passes`: others than the pipeline's, for tests.
Compiled compile(isa::Program& program, const CompilerOptions& options, Origin origin,
                 std::function<const models::Config&()> config,
                 const std::function<void(const Compiled::Step&)>& on_step = {},
                 std::span<const Pass> passes = pipeline());

}  // namespace nkisim::compiler
