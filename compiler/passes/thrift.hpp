// Orders of a program that need less SBUF and PSUM than its own.
#pragma once

#include <string_view>
#include <vector>

#include "isa/program.hpp"

namespace nkisim::compiler {

/// Which instructions wait until something needs what they make.
enum class Delay : std::uint8_t {
  kNone,     // none
  kSources,  // those that read nothing on chip: loads, memset, iota
  kAll,      // all that begin more bytes than they end
  kSpread,  // as kSources; sums begin in PSUM as soon as they can, and what a first reader needs is
            // used up at once where that begins less than it ends
};

/// "none", "sources", "all" or "spread". Throws a usage Error that begins with `option`.
[[nodiscard]] Delay parse_delay(std::string_view option, std::string_view text);

/// Orders every stretch between barriers (models/precedence): an instruction that ends at least as
/// many bytes of tiles as it begins (kSpread: of SBUF, if PSUM has room) goes as soon as it can; of
/// the others those that `delay` names wait for the first that needs them, the rest keep the
/// program's order. The k-th instruction is the program's order[k]-th; it computes the same bits.
/// `placed` as for Hazards. Programs with explicit semaphores are left as they are.
[[nodiscard]] std::vector<std::uint32_t> thrifty_order(const isa::Program& program,
                                                       const std::vector<bool>& placed,
                                                       Delay delay);

}  // namespace nkisim::compiler
