"""Implements AccelOpt's profile call (zhang677/AccelOpt, `accelopt.kernel_wrapper.NKIKernel`) by
simulation.

    from nkisim_adapters.accelopt import NKIKernel
    NKIKernel("kernel.py", "task_numpy.py").profile(["hbm_read_bytes"]).metadata["latency"]

Same constructor, same result: compiled, runnable, correct, and metadata with latency in ms, the
errors' texts and the fields of neuron-profile's summary that are asked for. Latencies have no
spread, so min_ms and max_ms are the latency and rel_diffs is 0. Interface: accelopt/kernel_wrapper.py
and accelopt/eval_numpy.py of commit 47e29a7; `float16` anywhere outside comments is not correct there,
nor here.
"""

import re

from nkisim_evaluate import Evaluator, Settings
from nkisim_adapters.summary import slowest

#: Statuses of candidates that never got as far as a program.
_NOT_COMPILED = ("illegal", "error", "timeout", "memory", "crashed")


class KernelProperties:
    """The result of a profile call; `model_dump()` as pydantic's."""

    def __init__(self):
        self.compiled = self.correct = self.runnable = False
        self.metadata = {}

    def model_dump(self):
        return dict(vars(self))


class NKIKernel:
    """A kernel file and the NumPy task that it is to solve. settings: as nkisim.evaluate."""

    def __init__(self, program_path, base_numpy_path, **settings):
        self.program_path, self.base_numpy_path = program_path, base_numpy_path
        self.rel_tol, self.perf_tol = 2e-5, 0.01
        self.settings = {"target": "trn1", "timeout": 900, **settings}
        self.res = KernelProperties()

    def profile(self, save_fields=()):
        """Evaluates the kernel; a KernelProperties, also kept as `res`."""
        self.res = res = KernelProperties()
        with Evaluator(Settings(self.base_numpy_path, **self.settings), 1) as evaluator:
            record = evaluator.evaluate({"id": self.program_path, "path": self.program_path})
        error = record.get("error", {}).get("message", "")
        if record["status"] in _NOT_COMPILED:
            res.metadata["compilation_error"] = error
            res.metadata["compilation_traceback"] = record.get("error", {}).get("text", error)
            return res
        res.compiled = res.runnable = True
        if self._float16():
            res.metadata["correctness_error"] = "Float16 is used in the program."
            return res
        if record["status"] == "wrong":
            res.metadata["correctness_error"] = [error]
            return res
        res.correct = True
        milliseconds = record["latency_us"] / 1e3
        res.metadata.update(latency=milliseconds, min_ms=milliseconds, max_ms=milliseconds,
                            rel_diffs=0.0)
        core = slowest(record["summary"])
        res.metadata.update({f: core[f] for f in save_fields if f in core})
        return res

    def _float16(self):
        with open(self.program_path, encoding="utf-8") as source:
            return "float16" in re.sub(r"#.*", "", source.read())
