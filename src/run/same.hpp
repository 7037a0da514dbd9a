// Compares what two programs compute: it proves that they are equal by their expressions, or finds
// inputs for which they differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/analysis/expressions.hpp"
#include "src/run/golden.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// The result of the comparison.
struct Sameness {
  enum class Verdict : std::uint8_t {
    kSame,      // every element of every output is the same expression of the inputs
    kDiffer,    // some inputs give other values
    kUndecided  // neither
  };
  Verdict verdict = Verdict::kUndecided;
  std::string why = {};  // of undecided: what the expressions do not cover, or that they differ
  std::string first_of_a = {}, first_of_b = {};  // first instruction whose result the other lacks
  std::string output = {};                       // the first that differs, by a's name
  std::int64_t element = -1;                     // of it, row-major
  std::int64_t elements = 0;                     // of all outputs
  std::int64_t different = 0;                    // of them, by their expressions
  std::string inputs = {};                       // differ: which inputs show it
  double got = 0, expected = 0;                  // differ: b's value and a's
  std::map<std::string, NpyArray> witness = {};  // differ: the inputs, by a's names
};

struct SameOptions {
  compiler::Sums sums = compiler::Sums::kAnyOrder;
  Tolerance tolerance = {};  // of values that are taken to differ
  std::function<void(const char* stage)> stage = {};
};

/// Compares program `b` with program `a`: inputs and outputs by name where the names agree, else in
/// their order. Throws isa::Error if their inputs or outputs do not fit, or one cannot be run.
[[nodiscard]] Sameness same(const TraceFile& a, const TraceFile& b, const SameOptions& options);

}  // namespace nkisim
