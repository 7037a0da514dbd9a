"""Implements torch_neuronx.experimental.profiler and torch_xla.debug.profiler, which profile what runs within a block.

A block sets what NEURON_RT_INSPECT_* would set for a whole script (run/inspecting.py): each program that runs in
it leaves a profile, and the host a system profile, in a folder that `neuron-explorer view -d` opens.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from nkisim.run import inspecting

_FOLDER = "logs/plugins/neuron"  # AWS's default


class _Block:
    """Environment variables that hold within a block."""

    def __init__(self, folder: str) -> None:
        self.variables = {"NEURON_RT_INSPECT_ENABLE": "1", "NEURON_RT_INSPECT_DEVICE_PROFILE": "1",
                          "NEURON_RT_INSPECT_OUTPUT_DIR": folder}
        self.before: dict[str, str | None] = {}

    def start(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)

    def stop(self) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.before = {}


class profile:  # noqa: N801 - AWS's name
    """torch_neuronx.experimental.profiler.profile(...): a context manager. No server and no duration are needed:
    `port` and `ms_duration` count for nothing; every kernel in the block is profiled."""

    def __init__(self, port: int = 9012, ms_duration: int = 60000, neuron_tensorboard_plugin_dir: str = _FOLDER,
                 profile_type: str = "operator", *, output_path: str | None = None,
                 output_dir: str | None = None, **_settings: Any) -> None:
        self._block = _Block(os.fspath(output_path or output_dir or neuron_tensorboard_plugin_dir))

    def start(self) -> None:
        self._block.start()

    def stop(self) -> None:
        self._block.stop()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_problem: Any) -> None:
        self.stop()


class Trace:
    """torch_xla.debug.profiler.Trace(name): names a part of what the host does, as a block or a decorator."""

    def __init__(self, name: str, **facts: Any) -> None:
        self.name, self.facts = name, facts

    def __enter__(self) -> Trace:
        self._begin = time.time()
        return self

    def __exit__(self, *_problem: Any) -> None:
        inspecting.note(self.name, self._begin, **self.facts)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, **self.facts):
                return function(*args, **kwargs)

        return named


class StepTrace(Trace):
    """A step of training: StepTrace("train", step_num=3)."""


_traces: list[_Block] = []


def start_trace(log_dir: str) -> None:
    """Begins to profile into a folder, until stop_trace()."""
    _traces.append(_Block(os.fspath(log_dir)))
    _traces[-1].start()


def stop_trace() -> None:
    if _traces:
        _traces.pop().stop()


def start_server(port: int, only_on_master: bool = True) -> object:
    """Stands for a profiler's server: profiles are files here, so there is nothing to serve."""
    return object()
