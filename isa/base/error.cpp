// Puts the text of nkisim's exception Error together: broken rule, operand, location in the source.

#include "isa/base/error.hpp"

namespace nkisim::isa {

Error::Error(Rule rule, std::string message)
    : std::runtime_error(message), rule_(rule), message_(std::move(message)) {
  rebuild();
}

Error Error::about(Rule rule, std::string_view operand, const std::string& found,
                   const std::string& required, std::string_view hint) {
  Error error(rule, std::string(operand) + " is " + found + "; " + required + " is required" +
                        std::string(hint));
  return error.of(operand, found, required);
}

Error& Error::below(std::int64_t limit) {
  limit_ = limit;
  return *this;
}

Error& Error::at(std::string_view instruction, SourceLoc loc) {
  if (instruction_.empty()) instruction_ = instruction;
  if (!located_) loc_ = loc;
  located_ = true;
  rebuild();
  return *this;
}

Error& Error::of(std::string_view operand, const std::string& found, const std::string& required) {
  operand_ = operand;
  found_ = found;
  required_ = required.ends_with(',') ? required.substr(0, required.size() - 1) : required;
  return *this;
}

Error& Error::of_rank(std::int64_t rank) {
  if (!message_.starts_with("rank ")) message_ = "rank " + std::to_string(rank) + ": " + message_;
  rebuild();
  return *this;
}

Error& Error::in(std::string_view trace_file, std::string_view kernel_file) {
  if (trace_file_.empty()) trace_file_ = trace_file;
  if (kernel_file_.empty()) kernel_file_ = kernel_file;
  rebuild();
  return *this;
}

void Error::rebuild() {
  full_.clear();
  if (!trace_file_.empty()) {
    full_ += trace_file_;
    if (loc_.trace_line != 0) full_ += ":" + std::to_string(loc_.trace_line);
    full_ += ": ";
  } else if (loc_.trace_line != 0) {
    full_ += "line " + std::to_string(loc_.trace_line) + ": ";
  }
  if (!instruction_.empty()) full_ += instruction_ + ": ";
  full_ += message_;
  if (loc_.kernel_line != 0 && !kernel_file_.empty()) {
    full_ += " (" + kernel_file_ + ":" + std::to_string(loc_.kernel_line) + ")";
  }
}

void fail(Rule rule, std::string_view operand, const std::string& found,
          const std::string& required, std::string_view hint) {
  throw Error::about(rule, operand, found, required, hint);
}

void fail(Rule rule, const std::string& message) { throw Error(rule, message); }

}  // namespace nkisim::isa
