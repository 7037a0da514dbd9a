// Writes the table of all instructions as JSON, Markdown and text (`nkisim isa`, documentation
// site).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "isa/program/op_spec.hpp"

namespace nkisim {

/// One op with parameters, engines and generations. Stable keys.
[[nodiscard]] nlohmann::ordered_json op_json(const isa::OpSpec& op);
/// Every op, dtype, ALU operator and activation function (`nkisim isa --json`, and isa.json of a
/// build).
[[nodiscard]] std::string catalogue_json();
/// the page of the site.
[[nodiscard]] std::string catalogue_markdown();
/// One op for people; `target` (may be empty) restricts engines to that generation.
[[nodiscard]] std::string op_text(const isa::OpSpec& op, const std::string& target);

/// State of every function of the public nki.isa API per target.
struct CoverageRow {
  std::string function;
  std::vector<std::string> states;  // one per coverage_targets(): "complete", "-" or "missing"
};
[[nodiscard]] const std::vector<std::string>& coverage_targets();
[[nodiscard]] std::vector<CoverageRow> coverage();

/// The closest known op name ("tensor_tenosr" -> "tensor_tensor"); empty if nothing is close.
[[nodiscard]] std::string nearest_op(const std::string& text);

}  // namespace nkisim
