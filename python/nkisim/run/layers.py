"""Estimates the time of a kernel with a loop over many model layers from runs with few layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..values.errors import Error
from ..values.shape import Shape
from .result import Result
from .worldresult import WorldResult

#: Numbers of layers that are run, as many of them as it takes. Even ones, as buffers often alternate.
SAMPLES = (2, 4, 8, 12, 16, 24, 32)
FEWEST = 3          # runs, through whose latencies a line is drawn
MOST_ERROR = 0.002  # of the whole latency; beyond, it is not steady
#: Student's t, 95 % on one side, for 1, 2, ... degrees of freedom.
T_95 = (6.314, 2.920, 2.353, 2.132, 2.015)

_Run = Callable[[Sequence[Any], Mapping[str, Any]], "Result | WorldResult"]


class PerLayer:
    """An argument with a part for each layer: a list, an array by its first axis, or a function of how many."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def of(self, layers: int, total: int) -> Any:
        """The argument of a run of `layers` of the `total` layers."""
        values = self.values
        if not isinstance(values, (list, tuple)) and not hasattr(values, "shape"):
            return values(layers)
        size = len(values) if isinstance(values, (list, tuple)) else values.shape[0]
        if size != total:
            raise Error(f"per_layer has {size} parts; one for each of the {total} layers is required",
                        rule="layer_arguments", code="usage")
        return Shape((layers, *values.shape[1:]), values.dtype) if isinstance(values, Shape) else values[:layers]


def per_layer(values: Any) -> PerLayer:
    """Marks an argument of nkisim.run(..., layers=N) that has a part for each layer: a list of N, an array (or
    nkisim.Shape) whose first axis has N, or a function from a number of layers to the argument."""
    return PerLayer(values)


class LayersResult:
    """The time of a kernel of `layers` layers, of which few were run.

    latency_ns: of all layers; layer_ns: of one more. steady: whether they are read off a line through the latencies of
    runs of few layers; else all were run. error: half of the interval in which latency_ns is in 9 of 10 cases if the
    runs are off their line by chance, as a fraction of it; 0 where all were run. simulated: how many layers each run
    had. result: the last run's Result or WorldResult.
    """

    outputs = None  # time alone is asked

    def __init__(self, layers: int, latencies: Mapping[int, float], result: Result | WorldResult) -> None:
        self.layers, self.result = layers, result
        self.simulated = list(latencies)
        self.steady = layers not in latencies
        if self.steady:
            self.latency_ns, self.layer_ns, self.error = _line(latencies, layers)
        else:
            self.latency_ns, self.error = latencies[layers], 0.0
            self.layer_ns = self.latency_ns / layers

    @property
    def latency_us(self) -> float:
        """The latency of all layers, in simulated microseconds."""
        return self.latency_ns / 1e3

    @property
    def layer_us(self) -> float:
        """The latency of one layer in the steady state, in simulated microseconds."""
        return self.layer_ns / 1e3

    def report(self) -> str:
        """Two lines for people."""
        how = (f"from runs of {', '.join(map(str, self.simulated))} layers, +- {self.error:.2%}" if self.steady
               else "every layer simulated")
        return f"latency       {self.latency_us:.3f} us of {self.layers} layers ({how})\n" \
               f"layer         {self.layer_us:.3f} us"

    def __repr__(self) -> str:
        return f"<nkisim result: {self.layers} layers, {self.latency_us:.3f} us>"


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    """True if a kernel has a parameter of that name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def wants_layers(function: Callable[..., Any], kwargs: Mapping[str, Any], only_time: bool) -> bool:
    """True if layers=N is meant for run(), not for the kernel alone."""
    layers = kwargs.get("layers")
    if isinstance(layers, bool) or not isinstance(layers, int):
        return False
    if not only_time:
        if has_parameter(function, "layers"):
            return False
        raise Error("layers= gives time alone, as most layers are not run; timing=\"only\" is required",
                    rule="layer_arguments", code="usage")
    return True


def run_layers(run: _Run, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> LayersResult:
    """Runs `function` by run(args, kwargs) with few of its layers=N layers, until they say the time of all; with
    exact=True, or where those runs have more layers together, with all."""
    kwargs = dict(kwargs)
    total = kwargs.pop("layers")
    exact = bool(kwargs.get("exact")) if has_parameter(function, "exact") else bool(kwargs.pop("exact", False))
    if total < 1:
        raise Error(f"layers is {total}; at least 1 is required", rule="layer_arguments", code="usage")

    def simulated(layers):
        return run(*_given(function, args, kwargs, layers, total))

    latencies: dict[int, Any] = {}
    for layers in SAMPLES[:0 if exact or sum(SAMPLES[:FEWEST]) >= total else None]:
        if sum(latencies) + layers >= total:
            break
        last = simulated(layers)
        latencies[layers] = last.latency_ns
        if len(latencies) >= FEWEST:
            found = LayersResult(total, latencies, last)
            if found.error <= MOST_ERROR:
                return found
    last = simulated(total)
    return LayersResult(total, {**latencies, total: last.latency_ns}, last)


def _line(latencies, layers):
    """(latency of so many layers, a layer's time, error) by a line through the {layers: latency} of the last runs: of
    as many as lie on one, since the first ones may have a start that others do not show."""
    points = list(latencies.items())
    lines = [_fit(dict(points[first:]), layers) for first in range(len(points) - FEWEST + 1)]
    return next((line for line in lines if line[2] <= MOST_ERROR), lines[0])


def _fit(latencies, layers):
    """The same by the line of least squares through all of them."""
    import statistics

    slope, start = statistics.linear_regression(list(latencies), list(latencies.values()))
    free, mean = len(latencies) - 2, statistics.mean(latencies)
    off = (sum((y - start - slope * x) ** 2 for x, y in latencies.items()) / free) ** 0.5
    spread = 1 / len(latencies) + (layers - mean) ** 2 / sum((x - mean) ** 2 for x in latencies)
    latency = start + slope * layers
    return latency, slope, T_95[free - 1] * off * spread ** 0.5 / latency


def _given(function, args, kwargs, layers, total):
    """(args, kwargs) of a run of `layers` of `total` layers."""
    marked = 0

    def cut(value):
        nonlocal marked
        if isinstance(value, PerLayer):
            marked += 1
            return value.of(layers, total)
        if type(value) in (list, tuple) and len(value) == total and total > 1:
            marked += 1
            return value[:layers]
        return value

    args, kwargs = tuple(cut(a) for a in args), {key: cut(a) for key, a in kwargs.items()}
    if has_parameter(function, "layers"):
        kwargs["layers"] = layers
    elif not marked:
        raise Error(f"nothing says how the kernel comes to {total} layers; a parameter called layers, a list of "
                    f"{total}, or an argument marked nkisim.per_layer is required",
                    rule="layer_arguments", code="usage")
    return args, kwargs
