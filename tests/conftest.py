"""Fixtures of all Python tests. Helpers that are not fixtures are in tests/support."""

import multiprocessing.util
import os
import signal
import subprocess

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """For --dist loadgroup: the tests of a file share what it prepares and stay together, but in a file marked
    `apart`, which would keep one core busy alone at the end."""
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        if not item.get_closest_marker("apart"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


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
