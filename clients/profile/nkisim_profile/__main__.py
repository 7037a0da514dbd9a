"""Runs `python -m nkisim_profile view|report|compare|sweep ...`, which `nkisim view` and the others start."""

import contextlib
import io
import json
import os
import sys
from importlib import import_module

from nkisim_work import ProgressLine

from .plain import Plain

COMMANDS = ("view", "report", "compare", "sweep", "tables_json")
JSON_RESULT = ("view", "compare", "sweep")  # print their result as JSON themselves
#: Words for a command that is under way, on a terminal; a sweep counts its points itself.
DOING = {"view": "reading the session", "report": "drawing the report", "compare": "comparing"}
CODES = {2: "usage", 3: "bad_input", 4: "internal", 130: "interrupted"}


class _Copy(io.TextIOBase):
    """Standard error that is also kept."""

    def __init__(self):
        self.stream, self.kept = sys.stderr, []

    def write(self, text):
        self.kept.append(text)
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()

    def isatty(self):
        return self.stream.isatty()


def run(command, words):
    """The exit code of a command."""
    try:
        with ProgressLine(DOING[command]) if command in DOING else contextlib.nullcontext():
            return import_module(f"nkisim_profile.{command}").main(words)
    except SystemExit as stop:  # argparse
        return stop.code or 0
    except KeyboardInterrupt:
        print(f"nkisim {command}: interrupted", file=sys.stderr)
        return 130


def run_json(command, words):
    """The same with the error, if any, as JSON on standard output as the native commands do."""
    said = _Copy()
    with contextlib.redirect_stderr(said):
        code = run(command, words if command in JSON_RESULT or "--help-all" in words else
                   [w for w in words if w != "--json"])
    if code in CODES:
        lines = "".join(said.kept).strip().splitlines() or ["failed"]
        text = lines[-1]
        message = text.split(": ", 1)[1] if text.startswith("nkisim ") else text
        print(json.dumps({"ok": False, "exit_code": code, "error": {
            "code": CODES[code], "message": message, "text": text}}, indent=1))
    elif command not in JSON_RESULT and "--help-all" not in words:
        print(json.dumps({"ok": code == 0, "exit_code": code}))
    return code


def _working_folder_is_no_module_path():
    """The folder that `python -m` puts first holds what is looked at; its files are no programs."""
    here = os.path.realpath(os.getcwd())
    package = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path[:] = [p for p in sys.path if p and (os.path.realpath(p) != here or here == package)]


def _limit_memory():
    """A session that asks for more memory than there is gets an error, not the whole machine."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main():
    _working_folder_is_no_module_path()
    _limit_memory()
    sys.stdout, sys.stderr = Plain(sys.stdout), Plain(sys.stderr)
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m nkisim_profile " + "|".join(COMMANDS) + " ...", file=sys.stderr)
        return 2
    return (run_json if "--json" in sys.argv[2:] else run)(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
