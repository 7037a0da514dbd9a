"""A pytest plugin with which nki-library's own tests run on nkisim: it replaces modules that were
not published.

    cd CHECKOUT && PYTHONPATH=HERE:BUILD/python:src python -m pytest -p library_plugin \
        test/integration --test-mode simulation --output-directory DIR

Tests of several ranks run on several simulated ranks, where the checkout's own simulation
takes one. The tests import two modules, for runs on hardware, that the public checkout lacks, and one
of the compiler's, of which those of views use the tracing of a kernel; in simulation mode they ask for
an attribute that only compilation sets, in one file use a name without importing it, and in another
look up an argument without the suffix of its name;
core/mlp/mlp.py repeats the end of a docstring and is no Python. Kernels, references and tolerances
are the checkout's. library_suite.py runs some of them.

With --seconds a test may use so much of the processor's time, its reference included, so that a busy
machine does not decide; with --megabytes its kernel's arguments so many. Of a sample, a test that is
skipped as it runs, or too large for the limits, makes way for the next one of its function, as often as
the sample is large, with --small twice. A report (--junitxml) holds of each test what its largest kernel took of the
host's memory: `tensor_bytes`, those of its tensors in HBM, and `peak_bytes`, what the process had at
most during the run beyond what it had before.
"""

import builtins
import importlib.machinery
import json
import math
import os
import random
import re
import signal
import sys
import traceback
import types
from pathlib import Path

import numpy as np
import pytest

import nkisim
from nkisim.run import kernel as kernels
from nkisim.run.options import Options
from nkisim.run.recording import record

nkisim.install()

_UNPUBLISHED = {
    "test.utils.perf_analysis_private": ("analyze_trace",),
    "test.utils.scripts.remote_lock_scripts": ("LockResult", "LockStatus"),
}


def _refuse(*_args, **_kwargs):
    raise NotImplementedError("this part of nki-library's tests is not public")


def _stand_in(name, members):
    module = types.ModuleType(name)
    for member in members:
        setattr(module, member, type(member, (), {"__init__": _refuse}))
    sys.modules[name] = module


class _ParserFrontend:
    """Tests of views trace a kernel with the compiler's front end and go no further: recording does
    as much."""

    def compile(self, kernel, *, inputs, target, lnc, **_artifacts):
        return record(getattr(kernel, "func", kernel), (), inputs, lnc, Options(target))


for _name, _members in _UNPUBLISHED.items():
    _stand_in(_name, _members)
_stand_in("nki.compiler.frontend", ("NKIFrontend",))
sys.modules["nki.compiler.frontend"].ParserFrontend = _ParserFrontend
sys.modules["test.utils.scripts"] = types.ModuleType("test.utils.scripts")


class _Platforms:
    """core/qkv/test_qkv_tkg.py names `Platforms` without importing it."""

    def __getattr__(self, name):
        from test.utils.common_dataclasses import Platforms

        return getattr(Platforms, name)


builtins.Platforms = _Platforms()


_code = importlib.machinery.SourceFileLoader.source_to_code


def _without_doubled_docstring(loader, data, path, **options):
    """mlp.py as it was meant: the end of one docstring stands twice, the second time as code."""
    if str(path).endswith("core/mlp/mlp.py"):
        data = re.sub(rb'(\n    """\n)\n        TKG mode supports:.*?\n    """\n', rb"\1", data,
                      count=1, flags=re.S)
    return _code(loader, data, path, **options)


importlib.machinery.SourceFileLoader.source_to_code = _without_doubled_docstring


class Memory:
    """The host memory that kernels take, by Linux' account of this process."""

    largest = (0, 0)  # (tensor bytes, peak bytes) of a test's largest kernel

    @staticmethod
    def _status(key):
        with open("/proc/self/status") as status:
            return int(re.search(rf"{key}:\s+(\d+) kB", status.read())[1]) << 10

    @classmethod
    def watched(cls, run):
        def run_function(*args, **kwargs):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = cls._status("VmRSS")
            result = run(*args, **kwargs)
            tensors = sum(st.pitch_bytes for st in result.recorder.storages if not st.on_chip)
            cls.largest = max(cls.largest, (tensors, cls._status("VmHWM") - before))
            return result
        return run_function


if sys.platform == "linux":
    kernels.run_function = Memory.watched(kernels.run_function)


class _TooLarge(Exception):
    pass


def _over_time(*_args):
    raise _TooLarge("over the limit of processor time")


class Quota:
    """The number of tests of each function that have run: a skipped or too large one makes a place for the next."""

    def __init__(self, count, too_large=None):
        self.count, self.ran, self.tried = count, {}, {}
        self.too_large = count if too_large is None else too_large

    def enough(self, item):
        name = item.nodeid.split("[")[0]
        ran, tried = self.ran.get(name, 0), self.tried.get(name, 0)
        return bool(self.count) and (ran >= self.count or tried - ran >= self.too_large)

    def note(self, item, report):
        name = item.nodeid.split("[")[0]
        if report.skipped:
            return
        too_large = report.failed and re.search(TOO_LARGE, report.longreprtext)
        self.tried[name] = self.tried.get(name, 0) + 1
        self.ran[name] = self.ran.get(name, 0) + (not too_large)


TOO_LARGE = (r"over the limit of (processor time|arguments)|[Uu]nable to allocate|can.t allocate|"
             "bad_alloc|MemoryError")
quota = Quota(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if quota.enough(item):
        pytest.skip("beyond the sample")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or report.skipped or report.failed:
        quota.note(item, report)
    problem = call.excinfo and call.excinfo.value
    while problem is not None:  # what a failed test had in memory is not the next one's
        traceback.clear_frames(problem.__traceback__)
        problem = problem.__cause__ or problem.__context__
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    Memory.largest = (0, 0)
    signal.signal(signal.SIGPROF, _over_time)
    signal.setitimer(signal.ITIMER_PROF, item.config.getoption("--seconds"))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        item.user_properties += zip(("tensor_bytes", "peak_bytes"), Memory.largest)


def _check_size(inputs, most):
    if most and sum(getattr(v, "nbytes", 0) for each in inputs for v in each.values()) > most:
        raise _TooLarge("over the limit of arguments")


class _Packed:
    """An output of packed MX values, which the checkout wants as numbers of the dtype of its reference:
    on the device these are the same bits, and so they are here."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.view(dtype)


def _limited(simulate, most):
    """The checkout's simulate_kernel, for kernels with at most so many bytes to take."""
    def simulate_kernel(kernel, inputs, lnc):
        _check_size([inputs], most)
        return [_Packed(v) if v.dtype.names else v for v in simulate(kernel, inputs, lnc)]
    return simulate_kernel


def _run_ranks(kernel_args, ranks, most):
    """{output: array} of every rank: what the checkout's run_simulator_inference does for one."""
    from test.utils.common_dataclasses import normalize_golden_output

    given = kernel_args.kernel_input or {}
    inputs = [given.for_rank(r) if hasattr(given, "for_rank") else given for r in range(ranks)]
    inputs = [{k.removesuffix(".must_alias_input"): v for k, v in each.items()} for each in inputs]
    _check_size(inputs if hasattr(given, "for_rank") else inputs[:1], most)
    result = nkisim.run(kernel_args.kernel_func, ranks=ranks, rank_inputs=inputs,
                        options=Options(undefined="warn", ranks=ranks),  # as nki.simulate
                        lnc=kernel_args.compiler_input.logical_nc_config)
    outputs = []
    for rank, found in enumerate(result.outputs):
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        golden = normalize_golden_output(kernel_args.validation_args.golden_output, rank)
        if len(found) != len(golden):
            raise RuntimeError(f"{len(found)} outputs; {list(golden)} are expected")
        outputs.append({name: np.asarray(array, dtype=expected.dtype)
                        for (name, expected), array in zip(golden.items(), found)})
    return outputs


def _of_ranks(run_one, most):
    """Orchestrator._run_simulator_inference for any number of ranks: outputs lie where a run on
    the device leaves them."""
    def run(self, kernel_args):
        ranks = kernel_args.inference_args.collective_ranks
        if ranks == 1 and not hasattr(kernel_args.kernel_input, "for_rank"):
            return run_one(self, kernel_args)
        from test.utils.exceptions import InferenceException
        from test.utils.test_orchestrator import INF_ARTIFACT_DIR_NAME

        os.environ["NKI_NC_VERSION"] = kernel_args.compiler_input.platform_target.get_nc_gen()
        folder = os.path.join(self.fs_config.artifacts_output_directory_path, INF_ARTIFACT_DIR_NAME)
        try:
            outputs = _run_ranks(kernel_args, ranks, most)
        except _TooLarge:
            raise
        except Exception as problem:
            raise InferenceException(str(problem)) from problem
        for rank, tensors in enumerate(outputs):
            path = os.path.join(folder, f"output_worker_{rank}") if ranks > 1 else folder
            self.__dump_tensors__(path, tensors, lambda name: name)
        return folder
    return run


class _Inputs(dict):
    """A kernel's arguments; those that are outputs too also without the suffix that says so."""

    def __missing__(self, name):
        suffix = ".must_alias_input"
        if name.endswith(suffix):
            raise KeyError(name)
        return self[name + suffix]


def _describe(run_test):
    """UnitTestFramework.run_test, for descriptions of outputs that look up `mask_out_hbm`."""
    def run(self, *args, **kwargs):
        describe = self.output_tensor_descriptor
        if describe is not None:
            self.output_tensor_descriptor = lambda given: describe(_Inputs(given))
        return run_test(self, *args, **kwargs)
    return run


def pytest_collection_finish(session):
    framework = sys.modules.get("test.utils.unit_test_framework")
    if framework is not None:
        framework.UnitTestFramework.run_test = _describe(framework.UnitTestFramework.run_test)
    simulation = sys.modules.get("test.utils.simulation_setup")
    if simulation is not None:
        most = session.config.getoption("--megabytes") * 10 ** 6
        simulation.simulate_kernel = _limited(simulation.simulate_kernel, most)
    orchestrator = sys.modules.get("test.utils.test_orchestrator")
    if orchestrator is not None and simulation is not None:
        orchestrator.Orchestrator._run_simulator_inference = _of_ranks(
            orchestrator.Orchestrator._run_simulator_inference, most)
    if orchestrator is not None and not hasattr(orchestrator.Orchestrator, "_compiled_kernel"):
        orchestrator.Orchestrator._compiled_kernel = None


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=0,
                     help="run at most this many tests of each test function, evenly chosen")
    parser.addoption("--full", type=int, default=0,
                     help="where there are at most this many tests, run all")
    parser.addoption("--small", action="store_true",
                     help="of a sampled function, only the third of its tests with the least sizes")
    parser.addoption("--seconds", type=float, default=0,
                     help="processor time that a test may use; 0 is any")
    parser.addoption("--megabytes", type=float, default=0,
                     help="what a kernel's arguments may be; 0 is any")
    parser.addoption("--counts", default="", help="file for the number of tests before sampling")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    count = config.getoption("--sample")
    if config.getoption("--counts"):
        left_out = sum(item.get_closest_marker("skip") is not None for item in items)
        Path(config.getoption("--counts")).write_text(json.dumps((len(items), left_out)))
    if count and len(items) > config.getoption("--full"):
        small = config.getoption("--small")
        quota.__init__(count, 2 if small else None)
        groups = {}
        for item in items:
            if not item.get_closest_marker("skip"):
                groups.setdefault(item.nodeid.split("[")[0], []).append(item)
        choose = _small if small else _evenly
        items[:] = [item for group in groups.values() for item in choose(group, count)]


def _size(item):
    """The product of the numbers in a test's name: how large its arrays are, roughly."""
    numbers = re.findall(r"\d+", item.nodeid.partition("[")[2])
    return math.prod(max(1, int(n)) for n in numbers)


def _small(group, count):
    """The third (at least `count`) of a group with the least sizes: evenly chosen ones, then others."""
    ordered = sorted(group, key=_size)
    third = ordered[:max(count, len(ordered) // 3)]
    chosen = _evenly(third, count)
    return sorted(chosen[:count], key=_size) + chosen[count:]


def _evenly(group, count):
    """All of a group: first `count` of them evenly chosen, then the rest by chance (one seed)."""
    chosen = sorted({i * len(group) // count for i in range(count)})
    rest = sorted(set(range(len(group))) - set(chosen))
    random.Random(0).shuffle(rest)
    return [group[i] for i in chosen + rest]
