// Tests the JSON form of errors: it holds only the facts that the error has.
#include "src/report/error_json.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace nkisim {
namespace {

TEST_CASE("JSON of an error without a location has none") {
  const auto j = error_json(isa::Error(isa::Rule::axes, "no axis"));
  CHECK(j["code"] == "bad_input");
  CHECK(j["rule"] == "axes");
  for (const char* key : {"file", "line", "instruction", "operand", "kernel_file", "kernel_line"}) {
    INFO(key);
    CHECK_FALSE(j.contains(key));
  }
}

TEST_CASE("an error has the lines of the trace and of the kernel") {
  for (const std::uint32_t line : {1U, 2U, 70000U}) {
    isa::Error error(isa::Rule::axes, "no axis");
    isa::SourceLoc loc;
    loc.trace_line = line;
    loc.kernel_line = line + 1;
    error.at("tensor_reduce", loc);
    const auto j = error_json(error);
    CHECK(j["line"] == line);
    CHECK(j["kernel_line"] == line + 1);
    CHECK(j["instruction"] == "tensor_reduce");
    loc.kernel_line = 1;
    isa::Error first(isa::Rule::axes, "no axis");
    first.at("tensor_reduce", loc);
    CHECK(error_json(first)["kernel_line"] == 1);
  }
}

}  // namespace
}  // namespace nkisim
