// Declares the conditions of a run: how never-written bytes read, which broken rules are errors,
// where warnings and prints go, the rounding seed. Interpreter and timing model get the same ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "isa/base/policy.hpp"

namespace nkisim::isa {

/// The treatment of bytes that no instruction wrote. kError: they are undefined. Instructions carry
/// that along by element, and it is an error when it reaches an output, an address, a register or a
/// predicate. kAllow: they read as zeros, and nothing is tracked.
enum class Unwritten : std::uint8_t { kError, kAllow };

/// Receives the warnings of a run; errors are thrown. Null: warnings are lost.
using WarningSink = std::function<void(const Error&)>;
/// Text of device_print and the like; null if nothing listens.
using PrintSink = std::function<void(const std::string&)>;

struct Conditions {
  Unwritten unwritten = Unwritten::kError;
  /// Says which broken rules are errors, and which warnings. The run does not ask again.
  RulePolicy rules = {};
  WarningSink warn = {};
  PrintSink print = {};
  /// Seed of stochastic rounding (isa/machine/rounding.hpp); none: nearest even.
  std::optional<std::uint32_t> stochastic_rounding = {};
};

}  // namespace nkisim::isa
