"""What happens to a candidate in its own process: its file is executed and its kernel recorded on
shapes alone. Out comes a program as data, and how its outputs lie in memory.

The process holds neither inputs nor reference, and nothing it says about values or time is used:
both are found by simulating the program elsewhere. What it does besides describing a kernel is
noted as a flag.
"""

import ast
import json
import os
import sys
import threading
import types

import numpy as np

from nkisim.lowering import copied_rows
from nkisim.run import session
from nkisim.run.hostarrays import bits
from nkisim.run.kernel import Kernel
from nkisim.run.options import Options
from nkisim.run.recording import record
from nkisim.tools.kernel_report import error_json
from nkisim.values.errors import Error
from nkisim.values.shape import Shape

#: Names of kernel functions that search loops use, tried in this order where several are there.
NAMES = ("kernel", "optimized_kernel", "nki_kernel", "solution")
_PROGRAM, _CONSTANTS = "program.nisa", "constants.npz"
#: Files between a candidate and the event that it is behind.
_BETWEEN = ("inspect.py", "traceback.py")
_FRAMES = ("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile")
#: Modules that no kernel needs, which may be loaded already when a candidate imports them.
_FOREIGN = {"ctypes": "memory", "_ctypes": "memory", "cffi": "memory", "_cffi_backend": "memory",
            "multiprocessing": "processes", "nkisim_evaluate": "introspection"}
_OURS = ("nkisim", "nki", "neuronxcc", "nkisim_evaluate", "nkisim_profile")
_WATCHED = ("nkisim", "nki", "neuronxcc", "numpy", "time", "builtins", "json", "os", "sys", "gc",
            "ml_dtypes", "nki_cpu_simulator", "neuron_dtypes")


class Flags:
    """What a candidate did that no kernel needs, by kind; see docs/evaluate.md."""

    def __init__(self, own, reference):
        self.found = {}
        self._own, self._reference = own, reference
        self._active = False
        roots = {os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, sys.exec_prefix,
                 *(p for p in sys.path if p)}
        self._roots = tuple(os.path.realpath(r) + os.sep for r in roots)
        sys.addaudithook(self._heard)

    def add(self, kind, what):
        self.found.setdefault(kind, str(what)[:200])

    def watch(self, active):
        self._active = active

    def _heard(self, event, arguments):
        if not self._active:
            return
        if event == "open":
            self._opened(*arguments[:3])
        elif event in ("os.listdir", "os.scandir", "glob.glob"):
            self._listed(event, arguments[0])
        elif event.startswith(("subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn",
                               "os.fork", "pty.", "_posixsubprocess")):
            self.add("processes", f"{event} {arguments[:1]}")
        elif event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
            self.add("network", event)
        elif event.startswith(("ctypes.", "mmap.")):
            self.add("memory", event)
        elif event in _FRAMES and self._asked():
            self.add("introspection", event)
        elif event in ("gc.get_objects", "gc.get_referrers", "gc.get_referents"):
            self.add("introspection", event)
        elif event in ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link",
                       "os.symlink", "os.truncate", "shutil.rmtree", "shutil.copyfile"):
            self._changed(event, arguments[0])

    def _asked(self):
        """Whether the candidate's own code is behind this event, and not a library that it uses."""
        self._active = False  # asking for the frame is such an event
        frame = sys._getframe(2)
        self._active = True
        while frame is not None and any(b in frame.f_code.co_filename for b in _BETWEEN):
            frame = frame.f_back
        return frame is not None and os.path.realpath(frame.f_code.co_filename) == self._own

    def _listed(self, event, path):
        where = os.path.realpath(os.fsdecode(path)) if path and not isinstance(path, int) else "."
        if not (where + os.sep).startswith(self._roots) and where != os.path.dirname(self._own):
            self.add("files", f"{event} {where}")

    def _changed(self, event, path):
        named = isinstance(path, (str, bytes, os.PathLike))
        own = named and self._is_reference(os.path.realpath(os.fsdecode(path)))
        self.add("reference" if own else "files", f"{event} {path!r}")

    def _opened(self, path, mode, flags):
        if isinstance(path, int) or path is None:
            return
        where = os.path.realpath(os.fsdecode(path))
        writes = (isinstance(mode, str) and any(c in mode for c in "wax+")) or (
            isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if self._is_reference(where):
            self.add("reference", f"opened {where}")
        elif where == os.devnull:
            return
        elif writes:
            self.add("files", f"wrote {where}")
        elif not self._importable(where):
            self.add("files", f"opened {where}")

    def _is_reference(self, where):
        """The file itself, under any name, or its bytecode, which Python reads in its place."""
        if self._reference is None:
            return False
        folder, name = os.path.split(where)
        parent, own = os.path.split(self._reference)
        bytecode = name.endswith(".pyc") and name.split(".")[0] == own.rpartition(".")[0]
        if bytecode and folder in (parent, os.path.join(parent, "__pycache__")):
            return True
        try:
            return where == self._reference or os.path.samefile(where, self._reference)
        except OSError:
            return False

    def _importable(self, where):
        if where == self._own:
            return True
        code = where.endswith((".py", ".pyc", ".so", ".pth", ".zip"))
        folder = os.path.dirname(self._own)
        beside = os.path.dirname(where) in (folder, os.path.join(folder, "__pycache__"))
        return (where.startswith(self._roots) and not beside) or (beside and code)


def _watched_functions():
    """What modules and classes hold under which names, of those a candidate might rebind."""
    held = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _WATCHED or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if callable(value):
                held[name, key] = value
            if isinstance(value, type) and value.__module__.split(".")[0] == "nkisim":
                for inner, function in list(vars(value).items()):
                    if callable(function) or isinstance(function, property):
                        held[f"{name}.{key}", inner] = function
    return held


def _now(name, key):
    if name in sys.modules:
        return vars(sys.modules[name]).get(key)
    module, _, cls = name.rpartition(".")
    return vars(getattr(sys.modules.get(module), cls, object)).get(key)


def _rebound(held):
    for (name, key), value in held.items():
        if _now(name, key) is not value:
            yield f"{name}.{key}"


def _replaced(before):
    """Names of modules that are not what they were, or that stand in for one of ours."""
    for name, module in before.items():
        if sys.modules.get(name) is not module:
            yield name
    for name in set(sys.modules) - set(before):
        found = sys.modules[name]
        if name.split(".")[0] in _OURS and getattr(found, "__spec__", None) is None:
            yield name


def _foreign_imports(tree):
    """Modules of _FOREIGN that a text imports anywhere."""
    for node in ast.walk(tree):
        names = ([a.name for a in node.names] if isinstance(node, ast.Import) else
                 [node.module] if isinstance(node, ast.ImportFrom) and node.module else [])
        yield from (n for n in names if n.split(".")[0] in _FOREIGN)


def _module(path, flags):
    module = types.ModuleType("nkisim_candidate")
    module.__file__ = path
    sys.path.insert(0, os.path.dirname(path))
    sys.modules[module.__name__] = module
    sys.dont_write_bytecode = True
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read(), path)
    for name in _foreign_imports(tree):
        flags.add(_FOREIGN[name.split(".")[0]], f"import {name}")
    exec(compile(tree, path, "exec"), vars(module))
    return module


def find_kernel(module, name, parameters):
    """The kernel of a module: `name`, one of NAMES, or the only @nki.jit function there is; what a
    factory makes of `parameters` if there are any (or the kernel, which takes them itself)."""
    if name is None:
        known = [n for n in NAMES if callable(getattr(module, n, None))]
        jitted = [n for n, v in vars(module).items() if isinstance(v, Kernel)]
        if not known and len(jitted) != 1:
            raise Error(f"the file has {len(jitted)} kernels ({', '.join(jitted) or 'none'}); "
                        f"one of them by name, or a function called {NAMES[0]}, is required",
                        rule="kernel_choice", code="usage")
        name = (known or jitted)[0]
    function = getattr(module, name, None)
    if not callable(function):
        raise Error(f"the file has no function {name}", rule="kernel_choice", code="usage")
    if not parameters or isinstance(function, Kernel):
        return function, parameters
    made = function(**parameters)
    if not callable(made):
        raise Error(f"{name}(...) gives {type(made).__name__}; a kernel is required",
                    rule="kernel_choice", code="usage")
    return made, {}


def _stand_in(spec):
    """An argument without its values: a shape, or the plain value."""
    return Shape(spec["shape"], spec["dtype"]) if "shape" in spec else spec["value"]


def _recorded(function, extra, job):
    """Records the kernel: (kernel, recorder, outputs, place of each argument's tensor, written)."""
    kernel = function if isinstance(function, Kernel) else Kernel(function)
    args = [_stand_in(s) for s in job["args"]]
    kwargs = {**{k: _stand_in(s) for k, s in job["kwargs"].items()}, **extra}
    options = Options(job.get("target"), timing=False)
    grid = job.get("grid") if job.get("grid") is not None else kernel.grid
    grid = tuple(grid) if isinstance(grid, list) else grid
    recorder, returned, arguments = record(kernel.func, args, kwargs, grid, options, kernel.dialect,
                                           values=False)
    recorder.program.finish()
    spans = recorder.program.lifetimes()
    written = [(host, t) for host, t in arguments.pairs if spans[t.st.id][2]]
    session.set_roles(kernel.func, recorder, returned, [t for _, t in written])
    order = [v for v in (*args, *kwargs.values()) if isinstance(v, Shape)]
    place = {id(host): n for n, host in enumerate(order)}
    given = {t.st.id: place[id(host)] for host, t in arguments.pairs if id(host) in place}
    changed = [{"argument": given[t.st.id], "tensor": t.st.name} for _, t in written
               if t.st.id in given]
    return kernel, recorder, session.tensors_in(returned), given, changed


def _saved(recorder, given, folder, name):
    """Writes the program; inputs are to be arrays arg0, arg1, ... of CONSTANTS' archive."""
    keys, constants = {}, {}
    for st in recorder.storages:
        if st.id in given:
            keys[st.id] = f"arg{given[st.id]}"
        elif st.array is not None:
            keys[st.id] = f"const{st.id}"
            constants[keys[st.id]] = bits(st.array)
    recorder.program.keep(recorder.dialect.neuronxcc,
                          [st.id for st in recorder.storages if st.address is not None],
                          copied_rows(recorder))
    recorder.program.save(os.path.join(folder, _PROGRAM), name, "data.npz", keys, False)
    if constants:
        np.savez(os.path.join(folder, _CONSTANTS), **constants)


def _layout(tensor):
    """Where the elements of an output are in its storage: offset in bytes, strides in elements."""
    if tensor.dyn is not None:
        raise Error("the kernel returns a view with a dynamic address; a tensor is required",
                    rule="kernel_result")
    return {"tensor": tensor.st.name, "shape": list(tensor.shape), "dtype": str(tensor.dtype),
            "offset": int(tensor.off), "strides": [int(s) for s in tensor.strides]}


def _beside(path):
    """Whether modules of the candidate's own folder were imported: its text alone is not all."""
    folder = os.path.dirname(os.path.realpath(path))
    files = (getattr(m, "__file__", None) for n, m in sys.modules.items() if n != "nkisim_candidate")
    return any(f and os.path.dirname(os.path.realpath(f)) == folder for f in files)


def _attempt(job, flags):
    module = _module(job["path"], flags)
    function, extra = find_kernel(module, job.get("kernel"), job.get("params") or {})
    kernel, recorder, outputs, given, changed = _recorded(function, extra, job)
    flags.watch(False)
    outputs = [_layout(t) for t in outputs]
    _saved(recorder, given, job["folder"], kernel.__name__)
    return {"ok": True, "outputs": outputs, "changed": changed, "legacy": kernel.dialect.neuronxcc,
            "instructions": len(recorder.program), "beside": _beside(job["path"])}


def describe(job):
    """Bytes (JSON) that say what came of recording the candidate of a job; see worker.py."""
    flags = Flags(os.path.realpath(job["path"]), job.get("reference"))
    threads = threading.active_count()
    held, environment, modules = _watched_functions(), dict(os.environ), dict(sys.modules)
    try:
        flags.watch(True)
        found = _attempt(job, flags)
    except MemoryError:
        raise
    except Exception as problem:
        flags.watch(False)
        if getattr(problem, "rule", "") == "recorded_on_shapes":
            flags.add("reads_values", "looks at a tile's values while it is recorded")
        found = {"ok": False, "error": _described(problem, job["path"])}
    flags.watch(False)
    for name in _rebound(held):
        flags.add("rebinds", name)
    if threading.active_count() > threads:
        flags.add("processes", "a thread started")
    for name in _replaced(modules):
        flags.add("rebinds", f"sys.modules[{name!r}]")
    if dict(os.environ) != environment:
        flags.add("environment", "changed os.environ")
    found["flags"] = flags.found
    return json.dumps(found).encode()


def _described(problem, path):
    """An error as JSON; a Python exception with the last line of the candidate's that it passed."""
    if isinstance(problem, Error):
        return error_json(problem, 3)["error"]
    line, frame = None, problem.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == path:
            line = frame.tb_lineno
        frame = frame.tb_next
    if isinstance(problem, SyntaxError):
        line = problem.lineno
    text = f"{type(problem).__name__}: {problem}"
    return {"code": "exception", "kind": type(problem).__name__, "message": text, "text": text,
            **({"kernel_line": line} if line else {})}


__all__ = ["describe", "find_kernel", "Flags"]
