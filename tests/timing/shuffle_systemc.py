#!/usr/bin/env python3
"""Changes SystemC's sources so that NKISIM_SYSTEMC_SHUFFLE=SEED shuffles the processes that are
runnable at once.

Usage: shuffle_systemc.py SOURCES. Without the variable the library does what it did.
"""
import sys
from pathlib import Path

HELPER = """#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

namespace sc_core {

inline void nkisim_shuffle( std::vector<void*>& all )
{
    static const char* seed = std::getenv( "NKISIM_SYSTEMC_SHUFFLE" );
    static std::mt19937 drawn( seed ? std::strtoul( seed, 0, 10 ) : 0 );
    if ( !seed ) return;
    for ( std::size_t i = all.size(); i > 1; --i ) std::swap( all[i - 1], all[drawn() % i] );
}
"""
QUEUE = """\tif ( KINDs_head->next_runnable() != END )
\t{
\t    std::vector<void*> all;
\t    for ( HANDLE h = KINDs_head->next_runnable(); h != END; h = h->next_runnable() ) all.push_back( h );
\t    nkisim_shuffle( all );
\t    HANDLE last = KINDs_head;
\t    for ( std::size_t i = 0; i < all.size(); ++i )
\t    {
\t        last->set_next_runnable( static_cast<HANDLE>( all[i] ) );
\t        last = static_cast<HANDLE>( all[i] );
\t    }
\t    last->set_next_runnable( END );
\t}
"""


def main():
    path = Path(sys.argv[1]) / "src/sysc/kernel/sc_runnable_int.h"
    text = path.read_text().replace("namespace sc_core {\n", HELPER, 1)
    for kind in ("method", "thread"):
        taken = f"\tm_{kind}s_pop = m_{kind}s_push_head->next_runnable();\n"
        if text.count(taken) != 1:
            sys.exit(f"{path}: {text.count(taken)} places take the {kind}s that are runnable; one is required")
        queue = QUEUE.replace("KINDs_head", f"m_{kind}s_push_head").replace("HANDLE", f"sc_{kind}_handle")
        text = text.replace(taken, queue.replace("END", f"SC_NO_{kind.upper()}S") + taken)
    path.write_text(text)


if __name__ == "__main__":
    main()
