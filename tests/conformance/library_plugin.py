"""A pytest plugin with which nki-library's own tests run: it stands in for what was not published.

    cd CHECKOUT && PYTHONPATH=HERE:BUILD/python:src python -m pytest -p library_plugin \
        test/integration --test-mode simulation --output-directory DIR

The tests import two modules, for runs on hardware, that the public checkout lacks, in simulation
mode ask for an attribute that only compilation sets, and in one file use a name without importing
it. Kernels, references and tolerances are the checkout's. library_suite.py runs some of them.
"""

import builtins
import json
import sys
import types
from pathlib import Path

import pytest

import nkisim

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


for _name, _members in _UNPUBLISHED.items():
    _stand_in(_name, _members)
sys.modules["test.utils.scripts"] = types.ModuleType("test.utils.scripts")


class _Platforms:
    """core/qkv/test_qkv_tkg.py names `Platforms` without importing it."""

    def __getattr__(self, name):
        from test.utils.common_dataclasses import Platforms

        return getattr(Platforms, name)


builtins.Platforms = _Platforms()


def pytest_collection_finish(session):
    orchestrator = sys.modules.get("test.utils.test_orchestrator")
    if orchestrator is not None and not hasattr(orchestrator.Orchestrator, "_compiled_kernel"):
        orchestrator.Orchestrator._compiled_kernel = None


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=0,
                     help="run at most this many tests of each test function, evenly chosen")
    parser.addoption("--full", type=int, default=0,
                     help="where there are at most this many tests, run all")
    parser.addoption("--counts", default="", help="file for the number of tests before sampling")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    count = config.getoption("--sample")
    if config.getoption("--counts"):
        Path(config.getoption("--counts")).write_text(json.dumps(len(items)))
    if count and len(items) > config.getoption("--full"):
        groups = {}
        for item in items:
            if not item.get_closest_marker("skip"):
                groups.setdefault(item.nodeid.split("[")[0], []).append(item)
        items[:] = [item for group in groups.values() for item in _evenly(group, count)]


def _evenly(group, count):
    if len(group) <= count:
        return group
    return [group[i * len(group) // count] for i in range(count)]
