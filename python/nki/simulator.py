"""nki.simulator: the name under which serving stacks such as vLLM call the CPU simulator
(NKI_SIMULATOR=1).
"""

from nkisim.api.jit import simulate


def simulate_kernel(kernel, args=(), kwargs=None, _lnc=None):
    """Runs a kernel function on arrays, on `_lnc` cores; what it returns."""
    found = simulate(kernel)
    return (found if _lnc in (None, 1) else found[_lnc])(*args, **(kwargs or {}))
