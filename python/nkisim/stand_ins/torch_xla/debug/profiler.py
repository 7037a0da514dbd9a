"""torch_xla.debug.profiler: profiles the simulated kernels that run within a block."""

from nkisim.frameworks.profilers import StepTrace, Trace, start_server, start_trace, stop_trace
from nkisim.frameworks.torch_legacy import unsupported

__all__ = ["StepTrace", "Trace", "start_server", "start_trace", "stop_trace"]
__getattr__ = unsupported(__name__)
