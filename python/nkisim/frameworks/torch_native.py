"""What torch asks of a device in C++ alone, for torch.accelerator: torch_native.cpp, compiled once per version of
torch with the host's compiler (about two seconds) and kept in the user's cache.

Without a compiler, with NKISIM_TORCH_NATIVE=0 or in a judged candidate the device is as before, but
torch.accelerator cannot wait for it or say what is on it.
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

SOURCE = pathlib.Path(__file__).with_name("torch_native.cpp")
_ALLOCATED = ctypes.CFUNCTYPE(ctypes.c_int64)
_kept = []  # what C++ calls lives as long as the process


def _cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "nkisim"


def _library():
    """Where the compiled part for this torch is kept."""
    what = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode() + torch.__file__.encode())
    return _cache() / f"torch-{torch.__version__}-{what.hexdigest()[:12]}.so"


def build(path):
    """Compiles the part to `path`; False if there is no compiler, or it does not, which is kept beside it too."""
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
                 f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{folder / 'include'}",
                 str(SOURCE), "-o", str(made), f"-L{folder / 'lib'}", "-lc10"]
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


def register(kind):
    """Gives torch the compiled part for a class of tensors, built first if need be; whether it has it."""
    if os.environ.get("NKISIM_TORCH_NATIVE") == "0" or "nkisim_evaluate.candidate" in sys.modules:
        return False
    with contextlib.suppress(OSError, RuntimeError):  # no cache, or no home for one
        library = _library()
        if library.exists() or build(library):
            _kept.append(_ALLOCATED(functools.partial(allocated, kind)))
            ctypes.CDLL(str(library)).nkisim_register(_kept[-1])
            return True
    return False
