"""Fixtures of all Python tests. Helpers that are not fixtures are in tests/support."""

import functools
import multiprocessing.util
import os
import signal
import subprocess
import sys
from unittest import mock

import pytest

from running import cli, write_trace

_started = [0]  # programs and forks, since the beginning


def _counted(function):
    def call(*args, **named):
        _started[0] += 1
        return function(*args, **named)

    return call


os.register_at_fork(before=_counted(lambda: None))
subprocess.Popen.__init__ = _counted(subprocess.Popen.__init__)
multiprocessing.util.spawnv_passfds = _counted(multiprocessing.util.spawnv_passfds)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The tests of a file share what it prepares and stay in one process, but those of a file marked `apart`, which
    would keep one core busy alone at the end."""
    from xdist.scheduler import LoadScopeScheduling

    @functools.cache
    def apart(path):
        return "pytest.mark.apart" in (config.rootpath / path).read_text()

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::", 1)[0]
            return nodeid if apart(path) else path

    return ByFile(config, log)


def _as_it_was():
    """Tests leave the paths of modules, the environment and the working folder as they found them: the programs that
    later tests start get them too."""
    folder = os.getcwd()
    with mock.patch.dict(os.environ), mock.patch.object(sys, "path", list(sys.path)):
        yield
    os.chdir(folder)


after_a_test = pytest.fixture(autouse=True, name="after_a_test")(_as_it_was)
after_a_file = pytest.fixture(autouse=True, scope="module", name="after_a_file")(_as_it_was)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.started_before = _started[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """A test that starts programs says so: `scripts/test --quick` leaves it out by its marker."""
    report = yield
    starts = _started[0] > item.started_before
    if report.when == "call" and report.passed and starts and not item.get_closest_marker("process"):
        report.outcome, report.longrepr = "failed", f"{item.nodeid} starts programs and is not marked process"
    return report


@pytest.fixture(autouse=True, scope="session")
def signals_arrive():
    """A shell's background jobs ignore SIGINT, and so would whatever they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def written(tmp_path):
    """written(lines, name="k.jsonl"): the path of a trace of these lines."""
    return lambda lines, name="k.jsonl": write_trace(tmp_path / name, lines)


@pytest.fixture
def simulate(written):
    """simulate(lines, *words): what `nkisim run` says of a trace of these lines."""
    return lambda lines, *words, **options: cli("run", written(lines), *words, **options)
