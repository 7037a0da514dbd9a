// Shows the modules of a simulated chip as a tree of text, as JSON and as an SVG drawing.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "models/blocks.hpp"

namespace nkisim {

/// A line for each module, indented by its depth: its name, its class, and what its ports are bound
/// to.
[[nodiscard]] std::string block_tree(std::span<const models::Block> blocks);
/// {"modules": [{"name", "kind", "ports": {port: module}}]}
[[nodiscard]] nlohmann::ordered_json block_json(std::span<const models::Block> blocks);
/// An SVG of nested boxes.
[[nodiscard]] std::string block_svg(std::span<const models::Block> blocks,
                                    const std::string& title);

}  // namespace nkisim
