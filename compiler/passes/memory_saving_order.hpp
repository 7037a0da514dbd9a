// Finds an instruction order that needs less SBUF and PSUM than the kernel's own order.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "isa/program/uses.hpp"

namespace nkisim::compiler {

/// The instructions that wait until something needs their results.
enum class Delay : std::uint8_t {
  kNone,     // none
  kSources,  // those that read nothing on chip: loads, memset, iota
  kAll,      // all that begin more bytes than they end
  kSpread,  // as kSources; sums begin in PSUM as soon as they can, and what a first reader needs is
            // used up at once where that begins less than it ends
};

/// All, in the order in which they are tried.
inline constexpr std::array kDelays = {Delay::kNone, Delay::kSources, Delay::kAll, Delay::kSpread};
[[nodiscard]] std::string_view name(Delay delay);  // "none", "sources", "all", "spread"

/// Orders every stretch between barriers (analysis/precedence): an instruction that ends at least
/// as many bytes of tiles as it begins (kSpread: of SBUF, if PSUM can hold it) goes as soon as it
/// can; of the others those that `delay` names wait for the first that needs them, the rest keep
/// the program's order. The k-th instruction is the program's order[k]-th; it computes the same
/// bits. `placed` as for Hazards. Programs with explicit semaphores are left as they are.
[[nodiscard]] std::vector<std::uint32_t> memory_saving_order(const isa::Program& program,
                                                             const std::vector<bool>& placed,
                                                             const isa::Uses& uses, Delay delay);

}  // namespace nkisim::compiler
