"""pytest plugin: runs kernels on several generations and compares them with a reference.

    @pytest.mark.nkisim(targets=["trn1", "trn2"], rtol=1e-2)
    def test_matmul(nki_run):
        nki_run(kernel, a, b).matches(a.T @ b).latency_below(40).no_slower()

A failing test's report holds the summary of each of its runs and the paths of its
instruction file, summary and timeline. Options: --nkisim-targets, --nkisim-artifacts, --nkisim-record.
"""

import json
import os
import pathlib
import re
import tempfile

import numpy as np
import pytest

from nkisim_profile.compare import cost_most_lines, differences, profile
from nkisim_profile.session import Session
from nkisim_work import foreign, share_of_machine
from nkisim_work.foreign import Fields, Foreign
from nkisim_work.times import time_text

from ..run.comparing import compare
from ..run.kernel import run
from ..run.result import Result
from .install import install
from .kernel_report import write_text

_MARKER = "nkisim(targets, rtol, atol, lnc, ranks): how the nki_run fixture runs kernels"
_LATENCY = "nkisim latency"  # of a run, in a report's properties: JUnit XML has them, too
_KNOWN = {"targets", "rtol", "atol", "lnc", "ranks"}


def pytest_addoption(parser):
    group = parser.getgroup("nkisim", "NKI kernels on a simulated NeuronCore")
    group.addoption("--nkisim-targets", metavar="LIST",
                    help="run nki_run tests on these targets only, comma-separated")
    group.addoption("--nkisim-artifacts", metavar="DIR",
                    help="where failing tests leave traces and timelines (default: temporary)")
    group.addoption("--nkisim-record", action="store_true",
                    help="write the latencies of no_slower() instead of comparing them")
    parser.addini("nkisim_targets", "targets of tests whose marker names none", default="trn2")
    parser.addini("nkisim_latencies", "file of recorded latencies",
                  default="nkisim_latencies.json")


def pytest_configure(config):
    config.addinivalue_line("markers", _MARKER)
    workers = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")  # pytest-xdist's, in each of its processes
    if workers.isdigit():
        os.environ.update(share_of_machine(int(workers)))
    install()


def _settings(node):
    marker = node.get_closest_marker("nkisim")
    settings = dict(marker.kwargs) if marker else {}
    unknown = settings.keys() - _KNOWN
    if unknown or (marker and marker.args):
        raise pytest.UsageError(f"{node.nodeid}: the marker is {_MARKER}")
    return settings


def _list(text):
    return [t for t in re.split(r"[,\s]+", text) if t]


def pytest_generate_tests(metafunc):
    if "nki_target" not in metafunc.fixturenames:
        return
    config = metafunc.config
    targets = _settings(metafunc.definition).get("targets") or _list(
        config.getini("nkisim_targets"))
    only = config.getoption("--nkisim-targets")
    if only:
        targets = [t for t in targets if t in _list(only)]
    metafunc.parametrize("nki_target", targets)


def _trust(result):
    return f" (trust: {result.confidence['text']})" if result.confidence else ""


def _assert_close(what, found, expected, rtol, atol):
    expected = np.broadcast_to(expected, found.shape) if expected.ndim == 0 else expected
    assert found.shape == expected.shape, (
        f"{what} is {list(found.shape)}; {list(expected.shape)} is required")
    off = compare(found, expected, rtol, atol)
    assert off.equal, (
        f"{what}: {off.mismatches} of {off.elements} elements differ (rtol {rtol:g}, atol {atol:g}; largest "
        f"error {off.max_abs:.4g} absolute, {off.max_rel:.4g} relative), first at {off.first}; worst at "
        f"{off.worst}: {off.found:.6g}, expected {off.expected:.6g}")


class Checked:
    """A Result with assertions; every other attribute is the Result's."""

    def __init__(self, result, key, settings, recorded):
        self.result = result
        self.key = key
        self.rtol, self.atol = settings.get("rtol", 1e-2), settings.get("atol", 1e-3)
        self._recorded = recorded

    def __getattr__(self, name):
        return getattr(self.result, name)

    def matches(self, *expected, rtol=None, atol=None):
        """Asserts that the outputs (of several ranks: what each returns) are `expected` within the
        marker's (or this) tolerance."""
        found = self.result.outputs
        found = found if isinstance(found, (list, tuple)) else [found]
        assert len(found) == len(expected), f"{len(found)} outputs, {len(expected)} expected"
        rtol, atol = (a if b is None else b for a, b in ((self.rtol, rtol), (self.atol, atol)))
        for i, (a, b) in enumerate(zip(found, expected)):
            _assert_close(f"output {i} of {self.result.name}", np.asarray(a), np.asarray(b), rtol, atol)
        return self

    def latency_below(self, microseconds):
        """Asserts an upper limit of the simulated latency."""
        found = self.result.latency_us
        assert found < microseconds, (
            f"{time_text(found)} is not below {time_text(microseconds)}: {self.result.name} on "
            f"{self.result.recorder.target}{_trust(self.result)}")
        return self

    def no_slower(self, tolerance=0.01):
        """Asserts that the run is at most `tolerance` slower than when it was recorded."""
        self._recorded.check(self.key, self.result, tolerance)
        return self


def _text_of(values):
    """The file's text: a line for each run's latency and for each part of its profile, so that diffs are short."""
    runs = []
    for key in sorted(values):
        found = values[key] if isinstance(values[key], dict) else {"us": values[key]}
        lines = [f"  {json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}"
                 for name in sorted(found, key=lambda name: (name != "us", name))]
        runs.append(f" {json.dumps(key)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(runs) + "\n}\n"


class _Latencies:
    """The file of recorded latencies, microseconds by test and run."""

    def __init__(self, config):
        self.path = pathlib.Path(config.rootpath) / config.getini("nkisim_latencies")
        self.recording = config.getoption("--nkisim-record")
        self.values = self._read() if self.path.exists() else {}

    def _read(self):
        try:
            fields = Fields(foreign.read(self.path))
            for name, recorded in fields.items():  # older files have the latency alone
                Fields({name: recorded.get("us") if isinstance(recorded, dict) else recorded}).real(name, least=0)
            return dict(fields)
        except (Foreign, OSError) as problem:
            raise pytest.UsageError(f"{self.path}: {problem}") from None

    def check(self, key, result, tolerance):
        found = result.latency_us
        if self.recording:
            self.values[key] = {"us": round(found, 3), **_profile(result)}
            write_text(self.path, _text_of(self.values))
            return
        recorded = self.values.get(key)
        assert recorded is not None, (
            f"{self.path.name} has no latency of {key}; --nkisim-record writes it")
        before = recorded["us"] if isinstance(recorded, dict) else recorded  # older files have the latency alone
        if found <= before * (1 + tolerance):
            return
        what = []
        if isinstance(recorded, dict) and "by_line" in recorded:
            what = ["what cost most:", *cost_most_lines(differences(recorded, _profile(result)))]
        raise AssertionError("\n".join([
            f"{time_text(found)} is {100 * (found / before - 1):.1f} % more than the recorded {time_text(before)}, and "
            f"{100 * tolerance:g} % is allowed: {key} (--nkisim-record accepts the new latency)", *what]))


def _profile(result):
    """The profile of a run, as plain data; nothing of several ranks."""
    if not isinstance(result, Result):
        return {}
    with tempfile.TemporaryDirectory(prefix="nkisim-pytest-") as folder:
        path = pathlib.Path(folder) / "run.npz"
        result.write(session=path)
        return json.loads(json.dumps(profile(Session(path))))


@pytest.fixture(scope="session")
def _nkisim_latencies(request):
    return _Latencies(request.config)


@pytest.fixture
def nki_run(request, nki_target, _nkisim_latencies):
    """run(kernel, *args, **kwargs) on the test's target; gives a Checked."""
    node = request.node
    settings = _settings(node)
    results = node.__dict__.setdefault("_nkisim_results", [])

    def call(kernel, *args, **kwargs):
        kwargs.setdefault("target", nki_target)
        if settings.get("lnc") is not None:
            kwargs.setdefault("lnc", settings["lnc"])
        if settings.get("ranks") is not None:
            kwargs.setdefault("ranks", settings["ranks"])
        result = run(kernel, *args, **kwargs)
        results.append(result)
        if result.latency_ns is not None:
            node.user_properties.append((_LATENCY, f"{result.name} on {kwargs['target']}: {result.latency_us:.3f} us"))
        return Checked(result, f"{node.nodeid} run {len(results)}", settings, _nkisim_latencies)

    return call


def _folder(item):
    chosen = item.config.getoption("--nkisim-artifacts")
    name = re.sub(r"[^\w.-]+", "_", item.nodeid)
    if chosen:
        folder = pathlib.Path(chosen) / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return item.config._tmp_path_factory.mktemp(name[-60:])


def _attach(item, number, result):
    """The summary of a run, and the files it leaves."""
    lines = [result.report()]
    try:
        stem = _folder(item) / f"{result.name}_{number}"
        summary = stem.with_suffix(".summary.json")
        summary.write_text(json.dumps(result.summary, indent=1), encoding="utf-8")
        lines += [f"summary       {summary}", f"trace         {result.save(f'{stem}.nisa')}"]
        if result.latency_ns is not None:
            lines.append(f"timeline      {result.perfetto(f'{stem}.pftrace')}")
    except Exception as problem:  # the test's own failure must stay visible
        lines.append(f"(no files: {problem})")
    return "\n".join(lines)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        for i, result in enumerate(item.__dict__.get("_nkisim_results", []), 1):
            report.sections.append(("nkisim profile", _attach(item, i, result)))


def pytest_terminal_summary(terminalreporter):
    """Writes the time of each run, a line each."""
    reports = [r for name in ("passed", "failed", "xfailed", "xpassed") for r in terminalreporter.stats.get(name, ())
               if getattr(r, "when", "") == "call"]
    lines = [f"{r.nodeid}: {said}" for r in reports for name, said in r.user_properties if name == _LATENCY]
    if lines:
        terminalreporter.section("nkisim latencies")
        for line in lines:
            terminalreporter.write_line(line)
