"""Implements nki.jit, nki.simulate and the other ways to run a kernel, for nki and for the older
neuronxcc.nki.
"""

import os

import numpy as np

from ..record.dialect import NEURONXCC, NKI
from ..record.recorder import recording
from ..record.targets import resolve_target
from ..run import neff
from ..run.kernel import Kernel
from ..values.errors import Error, fail, hint, short
from ..values.shape import Shape
from ..values.spelling import similar_names
from .configs import check_configs


#: The modes of nki.jit in any release, and of the decorators that stand for one.
_MODES = ("auto", "jax", "torchxla", "torch", "baremetal", "benchmark", "profile", "simulation", "trace")
_CURES = {"target": "platform_target=, or target= of nkisim.run,", "lnc": "the launch grid, kernel[2](x),",
          "dialect": "nki.jit, or neuronxcc.nki.jit,", "function": "the function as the first argument"}


def _check_settings(mode, settings):
    """Refuses keywords that the decorator has not, and reports a mode that no release has."""
    for name, required in _CURES.items():
        if name in settings:
            fail("option_value", f"nki.jit has no {name}=; {required} is required", "jit", code="usage")
    if mode is not None and mode not in _MODES:
        cure = similar_names(mode, _MODES) or f"one of {', '.join(_MODES)} is required"
        hint(f"mode={mode!r} is none of nki.jit, and is ignored; {cure}")


def _decorator(dialect):
    def jit(fn=None, mode="auto", *, func=None, grid=None, platform_target=None, compile_config=None,
            specialization_config=None, **settings):
        """@nki.jit, @nki.jit(...), nki.jit(function, ...); until NKI 0.3 fn was called func."""
        fn = func if fn is None else fn
        check_configs(compile_config, specialization_config)  # they say how to compile, not what
        if isinstance(fn, str):  # nki.jit("mode")
            fn, mode = None, fn
        if fn is None:
            return lambda f: jit(f, mode, grid=grid, platform_target=platform_target, **settings)
        if isinstance(fn, Kernel):
            fn = fn.func
        if not callable(fn) or not isinstance(mode, (str, type(None))):
            wrong = mode if callable(fn) else fn
            raise Error(rule="option_value", operand="an argument of nki.jit", found=short(wrong), code="usage",
                        required="a function alone (its arguments are given to what nki.jit makes of it)")
        _check_settings(mode, settings)
        if platform_target is not None:
            resolve_target(platform_target)
        kernel = Kernel(fn, grid, platform_target, dialect, mode=mode, **settings)
        if mode == "benchmark":
            return Benchmark(kernel, **settings)
        return kernel

    return jit


jit = _decorator(NKI)
legacy_jit = _decorator(NEURONXCC)


def _kernel_of(kernel, dialect=NKI):
    if isinstance(kernel, Benchmark):
        return kernel.kernel
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel, dialect=dialect)


def _with_sentinels(kernel):
    """As AWS's simulator: undefined values reach the outputs, as NaN; a warning says which."""
    return Kernel(kernel.func, kernel.grid, kernel.target, kernel.dialect,
                  **{**kernel.settings, "undefined": "warn"})


def simulate(kernel):
    """nki.simulate(kernel)(...): the kernel itself, as everything here is simulated. Undefined
    values in its outputs are a warning, so that `np.isnan` finds them, and so are tiles that do not
    fit SBUF or PSUM, whose capacity AWS's simulator does not know (nki_simulator.rst)."""
    return _with_sentinels(_kernel_of(kernel))


def simulate_kernel(kernel, *args, **kwargs):
    """nki.simulate_kernel(kernel[grid], *args)."""
    return _with_sentinels(_kernel_of(kernel, NEURONXCC))(*args, **kwargs)


class _Latency:
    def __init__(self, nanoseconds):
        self.nanoseconds = nanoseconds

    def get_latency_percentile(self, percentile):
        """Microseconds; every simulated run takes the same time."""
        return self.nanoseconds / 1e3


class BenchmarkResult:
    def __init__(self, result):
        self.result = result
        self.nc_latency = _Latency(result.latency_ns or 0)
        self.neff_latency = self.nc_latency


def _filled(value):
    """An argument for which only a shape is given (typing.tensor[[128, 512], nl.float32]) as an
    array: drawn from 0 to 1, integers from 0 to 99, the same every time."""
    if isinstance(value, Shape):
        rng = np.random.default_rng(0)
        integers = value.dtype.kind in "iu"
        drawn = rng.integers(0, 100, value.shape) if integers else rng.random(value.shape)
        return drawn.astype(value.dtype)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_filled(v) for v in value)
    return value


class Benchmark:
    """nki.benchmark, nki.profile and nki.baremetal: runs once, keeps the simulated latency.

    settings: save_neff_name saves the program (nkisim_profile/container.py), save_trace_name its
    session; both in working_directory, if that is given. Others have no effect: every execution
    of a simulated program takes the same time.
    """

    def __init__(self, kernel, **settings):
        self.kernel = kernel
        self.settings = settings
        self.benchmark_result = None
        self.__name__ = getattr(kernel, "__name__", "kernel")
        self.__wrapped__ = kernel.func

    @property
    def func(self):
        return self.kernel.func

    def __getitem__(self, grid):
        other = Benchmark(self.kernel[grid], **self.settings)
        other._parent = self
        return other

    _parent = None

    def __call__(self, *args, **kwargs):
        if recording.get():
            return self.kernel.func(*args, **kwargs)
        out = self.kernel(*_filled(args), **{k: _filled(v) for k, v in kwargs.items()})
        self._save(self.kernel.result)
        self.benchmark_result = BenchmarkResult(self.kernel.result)
        if self._parent is not None:
            self._parent.benchmark_result = self.benchmark_result
        return out


    def _save(self, result):
        folder = self.settings.get("working_directory") or ""
        names = [self.settings.get(n) for n in ("save_neff_name", "save_trace_name")]
        paths = [name and os.path.join(folder, name) for name in names]
        if folder:
            os.makedirs(folder, exist_ok=True)
            for path in filter(os.path.exists, filter(None, paths)):
                if not self.settings.get("overwrite"):
                    raise Error(f"{path} exists; overwrite=True is required to replace it",
                                rule="file_unwritable",
                                code="usage", instruction="profile")
        if paths[0]:
            neff.save(result, paths[0])
        if paths[1]:
            result.write(session=paths[1])


def _profile(kernel, settings):
    """nki.profile: its files have names by default."""
    named = {"save_neff_name": "file.neff", "save_trace_name": "profile.ntff"}
    return Benchmark(kernel, **({**named, **settings} if settings.get("working_directory")
                                else settings))


def _baremetal(kernel, settings):
    saves = any(settings.get(name) for name in ("save_neff_name", "save_trace_name"))
    return Benchmark(kernel, **settings) if saves else kernel


def _wrapper(said, make):
    def decorator(kernel=None, *, func=None, legacy=True, **settings):
        kernel = func if kernel is None else kernel
        dialect = NEURONXCC if legacy else NKI
        if not callable(kernel):
            return lambda f: make(_kernel_of(f, dialect), settings)
        return make(_kernel_of(kernel, dialect), settings)

    decorator.__doc__ = said
    return decorator


benchmark = _wrapper("Decorator: calling the kernel also gives kernel.benchmark_result, of simulated "
                     "latencies.", lambda kernel, settings: Benchmark(kernel, **settings))
profile = _wrapper("Decorator: like benchmark; saves the program and its session where asked to.",
                   _profile)
baremetal = _wrapper("Decorator: runs the kernel on NumPy arrays; saves its program where asked to.",
                     _baremetal)
trace = _wrapper("Decorator: the kernel as nki.jit makes it.", lambda kernel, settings: kernel)
