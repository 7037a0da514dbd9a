"""nki.jit, nki.simulate and the ways to run of both API generations."""

from ..record.recorder import state
from ..run.kernel import Kernel


def _decorator(legacy):
    def jit(fn=None, mode="auto", *, func=None, grid=None, platform_target=None, **settings):
        """@nki.jit, @nki.jit(...), nki.jit(function, ...); until NKI 0.3 fn was called func."""
        fn = func if fn is None else fn
        if isinstance(fn, str):  # nki.jit("mode")
            fn, mode = None, fn
        if fn is None:
            return lambda f: jit(f, mode, grid=grid, platform_target=platform_target, **settings)
        if isinstance(fn, Kernel):
            fn = fn.func
        kernel = Kernel(fn, grid, platform_target, legacy, mode=mode, **settings)
        if mode == "benchmark":
            return Benchmark(kernel, **settings)
        return kernel

    return jit


jit = _decorator(False)
legacy_jit = _decorator(True)


def _kernel_of(kernel, legacy=False):
    if isinstance(kernel, Benchmark):
        return kernel.kernel
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel, legacy=legacy)


def simulate(kernel):
    """nki.simulate(kernel)(...): the kernel itself, as everything here is simulated."""
    return _kernel_of(kernel)


def simulate_kernel(kernel, *args, **kwargs):
    """nki.simulate_kernel(kernel[grid], *args)."""
    return _kernel_of(kernel, True)(*args, **kwargs)


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


class Benchmark:
    """nki.benchmark and nki.profile: runs once, keeps the simulated latency."""

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
        if state.recorder is not None:
            return self.kernel.func(*args, **kwargs)
        out = self.kernel(*args, **kwargs)
        self.benchmark_result = BenchmarkResult(self.kernel.result)
        if self._parent is not None:
            self._parent.benchmark_result = self.benchmark_result
        return out


def _wrapper(make):
    def decorator(kernel=None, *, func=None, legacy=True, **settings):
        kernel = func if kernel is None else kernel
        if not callable(kernel):
            return lambda f: make(_kernel_of(f, legacy), settings)
        return make(_kernel_of(kernel, legacy), settings)

    return decorator


benchmark = _wrapper(lambda kernel, settings: Benchmark(kernel, **settings))
profile = _wrapper(lambda kernel, settings: Benchmark(kernel, **settings))
baremetal = _wrapper(lambda kernel, settings: kernel)
trace = _wrapper(lambda kernel, settings: kernel)
