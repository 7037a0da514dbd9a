// Formats an error as JSON with the fields that it has.

#include "src/report/error_json.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace nkisim {
namespace {

// A wrong command line and a bug of ours are kinds of their own, whatever rule is broken.
std::string_view kind_of(const isa::Error& error) {
  if (error.code() == isa::ErrorCode::kUsage) return "usage";
  if (error.code() == isa::ErrorCode::kInternal) return "internal";
  return isa::info(isa::info(error.rule()).kind).name;
}

}  // namespace

std::string text_with_rule(const isa::Error& error) {
  return std::string(error.what()) + " [" + std::string(isa::name(error.rule())) + "]";
}

nlohmann::ordered_json error_json(const isa::Error& error) {
  constexpr std::array<std::string_view, 3> kCodes = {"usage", "bad_input", "internal"};
  nlohmann::ordered_json j = {{"code", kCodes.at(static_cast<std::size_t>(error.code()))},
                              {"kind", kind_of(error)},
                              {"rule", isa::name(error.rule())},
                              {"message", error.message()},
                              {"text", text_with_rule(error)}};
  const auto put = [&j](const char* key, const std::string& value) {
    if (!value.empty()) j[key] = value;
  };
  put("file", error.trace_file());
  if (error.loc().trace_line != 0) j["line"] = error.loc().trace_line;
  put("instruction", error.instruction());
  put("operand", error.operand());
  put("found", error.found());
  put("required", error.required());
  put("kernel_file", error.kernel_file());
  if (error.loc().kernel_line != 0) j["kernel_line"] = error.loc().kernel_line;
  return j;
}

}  // namespace nkisim
