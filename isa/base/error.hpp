// Declares Error, the one exception of nkisim. It says which rule is broken, what was found, what
// is required, and where.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "isa/rules/rule.hpp"

namespace nkisim::isa {

/// The origin of an instruction. Zero means unknown; `kernel_file` indexes Program::files().
struct SourceLoc {
  std::uint32_t trace_line = 0;
  std::uint32_t kernel_file = 0;  // 0 = none, otherwise index + 1
  std::uint32_t kernel_line = 0;
};

/// A user-facing failure. what() reads "trace:line: instruction: operand: found; required
/// (kernel:line)". Checks deep in isa/ throw it with the parts they know; Program::locate adds file
/// names.
class Error : public std::runtime_error {
 public:
  Error(Rule rule, std::string message);
  /// One that reads "<operand> is <found>; <required> is required<hint>", and keeps the parts. The
  /// hint is no part: isa::suggest.
  static Error about(Rule rule, std::string_view operand, const std::string& found,
                     const std::string& required, std::string_view hint = {});

  [[nodiscard]] Rule rule() const { return rule_; }
  [[nodiscard]] ErrorCode code() const { return info(rule_).code; }
  [[nodiscard]] const char* what() const noexcept override { return full_.c_str(); }

  // The message without any location.
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] const std::string& instruction() const { return instruction_; }
  [[nodiscard]] const SourceLoc& loc() const { return loc_; }
  [[nodiscard]] const std::string& kernel_file() const { return kernel_file_; }
  [[nodiscard]] const std::string& trace_file() const { return trace_file_; }
  [[nodiscard]] bool located() const { return located_; }
  // The parts of "<operand> is <found>; <required> is required"; empty for other messages. The
  // comma that a sentence sets behind "2048 elements, as src has," is no part.
  [[nodiscard]] const std::string& operand() const { return operand_; }
  [[nodiscard]] const std::string& found() const { return found_; }
  [[nodiscard]] const std::string& required() const { return required_; }
  // The bound that an index exceeds; 0 if the error is about no index.
  [[nodiscard]] std::int64_t limit() const { return limit_; }

  /// Adds the instruction name and its numeric location (done where the Inst is known).
  Error& at(std::string_view instruction, SourceLoc loc);
  /// Keeps the parts of the message, where it does not read as about() makes it.
  Error& of(std::string_view operand, const std::string& found, const std::string& required);
  Error& below(std::int64_t limit);
  /// Says which rank of a world it is of, if the message does not begin with one.
  Error& of_rank(std::int64_t rank);
  /// Adds the file names (done where the Program is known).
  Error& in(std::string_view trace_file, std::string_view kernel_file);

 private:
  void rebuild();
  Rule rule_;
  std::string message_, instruction_, trace_file_, kernel_file_, full_;
  std::string operand_, found_, required_;
  std::int64_t limit_ = 0;
  SourceLoc loc_;
  bool located_ = false;
};

/// Throws Error::about.
[[noreturn]] void fail(Rule rule, std::string_view operand, const std::string& found,
                       const std::string& required, std::string_view hint = {});
/// Throws an Error of the rule with a free-form message.
[[noreturn]] void fail(Rule rule, const std::string& message);

}  // namespace nkisim::isa
