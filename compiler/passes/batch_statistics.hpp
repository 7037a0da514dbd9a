// Merges row reductions: one instruction computes those of several tiles (compiler pass `rows`).
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// The last step of a row's statistic (tensor_reduce of a small tile to one column, reciprocal of
/// one) is done for up to eight iterations of a loop at once: their small tiles lie side by side,
/// and what needs one of the results comes after all. Where the iterations feed it from PSUM, for
/// as many as PSUM holds. Where the iterations do not depend on each other; nothing, if the tiles
/// would no longer fit.
PassResult rows(Unit& unit);

}  // namespace nkisim::compiler
