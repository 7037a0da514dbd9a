// Declares the switch by which a process asks for large pages for the memory of its runs.
#pragma once

namespace nkisim::isa {

/// From here on large memories come in large pages where the host has them: quicker to fill by a
/// process that runs one program after another, and more than a program with gaps needs.
void prefer_large_pages();

}  // namespace nkisim::isa
