"""Reports from inside a submitted kernel's process what only Python can see there, to the process
that watches it.

Executed in a namespace of its own with builtins of its own (`source` in candidate.py), which no module
leads to: nothing that the kernel's code rebinds changes what is reported here. What leads to it (frames, the
collector's lists) is reported before it is given. Whoever changes this process's memory by other means
can hide what is reported here, and nothing else (docs/security.md).
"""

import gc
import hashlib
import os
import sys
import _thread

FINISH = "nkisim_evaluate.finish"
_FRAMES = frozenset(("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile",
                     "sys._current_exceptions", "sys.monitoring.register_callback"))
_HEAP = frozenset(("gc.get_objects", "gc.get_referrers", "gc.get_referents", "code.__new__",
                   "sys.addaudithook"))
_FRAMES_OF = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
_STARTS = ("subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "pty.",
           "_posixsubprocess", "_thread.start")
_TALKS = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.")
_MEMORY = ("ctypes.", "mmap.")
_CHANGES = frozenset(("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link",
                      "os.symlink", "os.truncate", "shutil.rmtree", "shutil.copyfile"))
_LISTS = frozenset(("os.listdir", "os.scandir", "glob.glob"))
_OTHER = frozenset(("open", "object.__getattr__", "compile", "os.putenv", "os.unsetenv", FINISH,
                    "nkisim_evaluate.flag", "nkisim.values_read"))
_PREFIXES = (*_STARTS, *_TALKS, *_MEMORY)
_EXACT = _FRAMES | _HEAP | _CHANGES | _LISTS | _OTHER
_OURS = ("nkisim", "nki", "neuronxcc", "nkisim_evaluate", "nkisim_profile")
_MOST = 2000  # different reports


def _is_text(value):
    return type(value) is str


def _path_of(value):
    if type(value) is bytes:
        value = value.decode("utf-8", "replace")
    return value if _is_text(value) else None


def _reporting(nonce, channel, leave, write=os.write):
    """(send(bytes), report(kind, text)): lines on the channel, each different one once."""
    reported: set[tuple[str, str]] = set()

    def send(data):
        try:
            while data:
                data = data[write(channel, data):]
        except BaseException:
            leave(1)

    def report(kind, text):
        text = text[:1200]
        if (kind, text) in reported or len(reported) > _MOST:
            return
        reported.add((kind, text))
        send(nonce + b" " + kind.encode() + b" " + text.encode("utf-8", "replace").hex().encode()
             + b"\n")

    return send, report


def _asking(own, roots, getframe=sys._getframe):
    """(is_library(file's name), asked()): whether the candidate's own code is behind an event, and no
    library that it uses."""
    def is_library(name):
        return _is_text(name) and (name.startswith(roots) and name != own
                                   or name.startswith("<frozen "))

    def passes_on(frame):
        """True if a library's frame gives its caller the frames that it asks for."""
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        return is_library(name) and (name.endswith("inspect.py") or name.endswith("traceback.py")
                                     and function in ("walk_tb", "walk_stack"))

    def asked():
        frame = getframe(3)  # above this one, judged and on_audit
        while frame is not None and passes_on(frame):
            frame = frame.f_back
        return frame is not None and not is_library(frame.f_code.co_filename)

    return is_library, asked


def _finishing(nonce, held, modules, send, report, leave):
    """finish(payload, program): reports what was rebound or left behind, writes the program, sends the payload, ends
    the process. `payload`: a JSON object that is not empty; `program`: (function, arguments, path) or None. The
    payload gets the hash of what was written, so that nothing that runs meanwhile or later puts another there."""
    loaded, variables, count, ident = sys.modules, vars(os.environ)["_data"], _thread._count, _thread.get_ident
    were, threads, own_thread, module_type = dict(variables), count(), ident(), type(sys)

    def rebound():
        for space, name, value, label in held:
            if space.get(name) is not value:
                yield label
        for name, module in modules.items():
            if loaded.get(name) is not module:
                yield f"sys.modules[{name!r}]"
        for name, module in list(loaded.items()):
            if _is_text(name) and name not in modules and name.split(".")[0] in _OURS and (
                    type(module) is not module_type or module.__dict__.get("__spec__") is None):
                yield f"sys.modules[{name!r}]"

    digest, no_collection, opened, read = hashlib.sha256, gc.disable, os.open, os.read

    def sealed(payload, program):
        function, arguments, path = program
        no_collection()  # which would run the candidate's finalizers
        function(*arguments)
        found, file = digest(), opened(path, 0)
        while data := read(file, 1 << 20):
            found.update(data)
        return payload[:-1] + b', "program": "' + found.hexdigest().encode() + b'"}'

    def finish(payload, program=None):
        for label in rebound():
            report("rebinds", label)
        if count() > threads or ident() != own_thread:
            report("processes", "a thread started")
        if variables != were:
            report("environment", "changed os.environ")
        if type(payload) is not bytes:
            leave(1)
        if program is not None:
            try:
                payload = sealed(payload, program)
            except BaseException as problem:
                leave(77 if type(problem) is MemoryError else 1)
        send(nonce + b" end " + str(len(payload)).encode() + b"\n" + payload)
        leave(0)

    return finish


def _report_files(event, arguments, report):
    path = _path_of(arguments[0]) if arguments else None
    if path is None:
        return
    if event == "open":
        mode, flags = arguments[1:3]
        writes = _is_text(mode) and any(c in mode for c in "wax+") or (
            type(flags) is int and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        report("write" if writes else "open", path)
    else:
        report("list" if event in _LISTS else "change", path)


def _report_by_name(event, arguments, report):
    """Events that are reported whoever is behind them; whether this is one."""
    kind = ("introspection" if event in _HEAP else
            "environment" if event in ("os.putenv", "os.unsetenv") else
            "processes" if event.startswith(_STARTS) else
            "network" if event.startswith(_TALKS) else
            "memory" if event.startswith(_MEMORY) else None)
    if kind is not None:
        report(kind, event)
    elif event == "nkisim_evaluate.flag":
        if _is_text(arguments[0]) and _is_text(arguments[1]):
            report(arguments[0][:16], arguments[1])
    elif event == "nkisim.values_read":
        report("reads_values", "looks at a tile's values while it is recorded")
    else:
        return False
    return True


def install(nonce: bytes, channel: int, own: str, roots: tuple, held: list, modules: dict, alone: bool) -> None:
    """From here on events are reported as lines on descriptor `channel`: nonce, kind, text in hex. `roots`:
    where libraries are, ending in a separator; `held`: (namespace, name, value, label) that are to stay;
    `modules`: a copy of sys.modules that is to stay as well. `alone`: nothing else sees files."""
    leave = os._exit
    send, report = _reporting(nonce, channel, leave)
    is_library, asked = _asking(own, roots)
    finish, state = _finishing(nonce, held, modules, send, report, leave), {"busy": False}

    def judged(event, arguments):
        if event == FINISH:
            state["busy"] = False  # a candidate's objects may have their say from here on
            finish(*arguments[:2])
        elif event in _FRAMES:
            if asked():
                report("introspection", event)
        elif event == "object.__getattr__":
            if _is_text(arguments[1]) and arguments[1] in _FRAMES_OF and asked():
                report("introspection", arguments[1])
        elif event == "compile":
            name = _path_of(arguments[1])
            if arguments[0] is not None and is_library(name) and asked():
                report("introspection", f"compile as {name}")
        elif not _report_by_name(event, arguments, report) and alone:
            _report_files(event, arguments, report)

    def on_audit(event, arguments):
        if event not in _EXACT and not event.startswith(_PREFIXES):
            return
        if state["busy"] and (event in _FRAMES or event == "object.__getattr__"):
            return  # asked() asks, too
        state["busy"] = True
        try:
            judged(event, arguments)
        finally:
            state["busy"] = False

    sys.addaudithook(on_audit)
