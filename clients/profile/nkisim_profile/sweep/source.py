"""Opens the program for `nkisim sweep`: a file of instructions, or a Python kernel, which is called
once for each generation.
"""

import functools
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

from nkisim_work import program

from ..session import BadSession

DATA_FILE = re.compile(r'"np[yz]"\s*:\s*"([^"]+)"')


def is_kernel(name):
    return name.rpartition(":")[0].endswith(".py")


@functools.lru_cache(maxsize=None)
def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


@functools.lru_cache(maxsize=None)
def version():
    return subprocess.run([program(), "--version"], check=True, capture_output=True,
                          text=True).stdout.strip()


class Source:
    """The program of each point, as a trace. `arg` are the arguments of a kernel."""

    def __init__(self, name, arg=()):
        self._name, self._arg = name, list(arg)
        if not is_kernel(name) and arg:
            raise BadSession(f"{name}: --arg is for kernels, FILE.py:FUNCTION")
        if not pathlib.Path(name.rpartition(":")[0] if is_kernel(name) else name).is_file():
            raise BadSession(f"{name}: there is no such file")
        self._folder = tempfile.TemporaryDirectory(prefix="nkisim-sweep-")
        self._recorded = {}

    def trace(self, point):
        """The path of the trace."""
        if not is_kernel(self._name):
            return self._name
        target = point.get("target", "")
        if target not in self._recorded:
            self._recorded[target] = self._record(target)
        return self._recorded[target]

    def _record(self, target):
        path = str(pathlib.Path(self._folder.name) / f"kernel-{target}.nisa")
        words = [sys.executable, "-m", "nkisim", "kernel", self._name, "-o", path]
        words += [word for a in self._arg for word in ("--arg", a)]
        done = subprocess.run(words + (["--target", target] if target else []),
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BadSession(f"{self._name}: {done.stderr.strip()}")
        return path

    def stamp(self, point):
        """Identifies what a result depends on apart from the settings: program, trace, config file."""
        config = point.get("config", "")
        parts = [version(), digest(self.trace(point))]
        if pathlib.Path(config).is_file():
            parts.append(digest(config))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def files(self, point):
        """Contents by name of the trace, of the data files it names, and of the point's config."""
        trace = pathlib.Path(self.trace(point))
        files = {trace.name: trace.read_bytes()}
        text = subprocess.run([program(), "convert", str(trace), "-o", "-"], check=True,
                              capture_output=True, text=True).stdout
        for name in DATA_FILE.findall(text):
            files[name] = (trace.parent / name).read_bytes()
        config = pathlib.Path(point.get("config", ""))
        if config.is_file():
            files[str(config)] = config.read_bytes()
        return files
