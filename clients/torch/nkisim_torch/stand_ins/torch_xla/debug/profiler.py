"""torch_xla.debug.profiler: profiles the simulated kernels that run within a block."""

from nkisim_torch.profilers import StepTrace, Trace, start_server, start_trace, stop_trace
from nkisim_torch.legacy import unsupported

__all__ = ["StepTrace", "Trace", "start_server", "start_trace", "stop_trace"]
__getattr__ = unsupported(__name__)
