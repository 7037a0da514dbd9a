"""Builds and loads the C++ part that torch.accelerator needs of a device: native.cpp, compiled once per version
of torch with the host's compiler (about two seconds) and kept in the user's cache.

Without a compiler, with NKISIM_TORCH_NATIVE=0 or in a kernel submitted to `nkisim evaluate` the device is as before,
but torch.accelerator cannot wait for it or say what is on it.
"""

import contextlib
import ctypes
import functools
import gc
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch

from nkisim.record.targets import default_target, hbm_bytes
from nkisim.run.session import LISTENERS

SOURCE = pathlib.Path(__file__).with_name("native.cpp")
#: The header and the name that a part of native.cpp needs; only newer versions of torch have them.
NEEDS = {"CAPABILITY": ("c10/core/impl/DeviceGuardImplInterface.h", "getDeviceCapability"),
         "MEMORY_INFO": ("c10/core/CachingDeviceAllocator.h", "getMemoryInfo")}
_kept = []  # what C++ calls lives as long as the process


class _MemoryCallbacks(ctypes.Structure):
    """Functions that C++ calls: the same structure as there."""

    _fields_ = [("allocated", ctypes.CFUNCTYPE(ctypes.c_int64)), ("memory", ctypes.CFUNCTYPE(ctypes.c_int64)),
                ("elapsed_ns", ctypes.CFUNCTYPE(ctypes.c_double))]


def _cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "nkisim"


def _library():
    """The place of the compiled part for this torch."""
    what = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode() + torch.__file__.encode())
    return _cache() / f"torch-{torch.__version__}-{what.hexdigest()[:12]}.so"


def _defines(include):
    has = [f"-DNKISIM_TORCH_{what}" for what, (header, name) in NEEDS.items()
           if name in (include / header).read_text(encoding="utf-8")]
    return [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *has]


def build(path):
    """Compiles the part to `path`; False if there is no compiler, or it does not, which is kept next to it too."""
    failed = path.with_suffix(".failed")
    if failed.exists():
        return False
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        return False
    folder = pathlib.Path(torch.__file__).parent
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = pathlib.Path(scratch) / "part.so"
        words = [*compiler.split(), "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden",
                 *_defines(folder / "include"), f"-I{folder / 'include'}", str(SOURCE), "-o", str(made),
                 f"-L{folder / 'lib'}", "-lc10"]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            failed.write_bytes(done.stderr)
            return False
        os.replace(made, path)
    return True


def allocated(kind):
    """Bytes of the memory that tensors of a class have on the host; what several of them share counts once."""
    storages = {}
    for each in gc.get_objects():
        if type(each) is kind and isinstance(host := getattr(each, "host", None), torch.Tensor):
            storage = host.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


class _Clock:
    """The time that finished kernels have taken on the device, which events on it report."""

    def __init__(self):
        self.ns = 0.0

    def on_result(self, result):
        self.ns += result.latency_ns or 0.0


def register(kind):
    """Gives torch the compiled part for a class of tensors, built first if need be; whether it has it."""
    if os.environ.get("NKISIM_TORCH_NATIVE") == "0" or "nkisim_evaluate.candidate" in sys.modules:
        return False
    with contextlib.suppress(OSError, RuntimeError):  # no cache, or no home for one
        library = _library()
        if library.exists() or build(library):
            clock = _Clock()
            LISTENERS.append(clock.on_result)
            functions = functools.partial(allocated, kind), lambda: hbm_bytes(default_target()), lambda: clock.ns
            fields = zip(_MemoryCallbacks._fields_, functions)
            callbacks = _MemoryCallbacks(*(made(function) for (_, made), function in fields))
            _kept.append(callbacks)
            ctypes.CDLL(str(library)).nkisim_register(ctypes.byref(callbacks))
            return True
    return False
