// Conditions of a run. The interpreter, the models and jobs pass them on unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "isa/base/error.hpp"

namespace nkisim::isa {

/// The treatment of bytes that no instruction wrote. kError: they are undefined. Instructions carry
/// that along by element, and it is an error when it reaches an output, an address, a register or a
/// predicate. kAllow: they read as zeros, and nothing is tracked.
enum class Unwritten : std::uint8_t { kError, kAllow };

/// Receives what is undefined in an output; `warning`: in the order of its values only, as where
/// one DMA writes an address twice, or for NaN and infinity only (Origins::times_zero); and what a
/// DMA skips of a row (Rule::row_cut_off). Null: errors are thrown, warnings are lost.
using UndefinedSink = std::function<void(const Error&, bool warning)>;
/// Text of device_print and the like; null if nothing listens.
using PrintSink = std::function<void(const std::string&)>;

struct Conditions {
  Unwritten unwritten = Unwritten::kError;
  UndefinedSink undefined_output = {};
  PrintSink print = {};
  /// Seed of stochastic rounding (isa/machine/rounding.hpp); none: nearest even.
  std::optional<std::uint32_t> stochastic_rounding = {};
};

}  // namespace nkisim::isa
