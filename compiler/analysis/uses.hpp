// Where the tensors of a program are used, and how to redirect a use.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Instructions that use one tensor; first and last count only if there is any.
struct Uses {
  std::vector<std::uint32_t> readers;
  std::uint32_t writes = 0, first = 0, last = 0;
};
[[nodiscard]] std::vector<Uses> uses_of(const isa::Program& program);

/// Lets `readers` use tensor `to` in place of `from`, of the same shape and dtype. False, and
/// nothing changed, if one of them cannot: a DMA, a use in a list or as an index, or a check that
/// fails.
bool redirect(isa::Program& program, const std::vector<std::uint32_t>& readers, std::uint32_t from,
              std::uint32_t to);

}  // namespace nkisim::compiler
