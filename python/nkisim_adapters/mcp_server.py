"""evaluate, explain and compare as tools of an agent, by the Model Context Protocol (docs/evaluate.md)."""

import json
import pathlib
import subprocess
import tempfile
import threading
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from nkisim_evaluate import Evaluator, Settings
from nkisim_evaluate.evaluator import MAX_SOURCE
from nkisim_evaluate.keeping import options, save
from nkisim_work import program

INSTRUCTIONS = """Judges NKI kernels for AWS NeuronCores (Trainium) by simulation: values against a reference, latency
in microseconds, rules of the machine with the kernel's line. Start with `references`; `evaluate` a kernel as Python
text with one function `kernel`; `explain` a rule or metric that a record names; `compare` two kernels to see where
the time of the faster one was saved."""
_MOST_NAME = 4000
#: Of a record, what an agent needs to go on.
_TOLD = ("status", "latency_us", "speedup", "verdict", "error", "flags", "seeds", "instructions",
         "sbuf_partition_bytes", "psum_partition_bytes")


class Judges:
    """One warm evaluator, for one reference after another. `references`: {name: file}."""

    def __init__(self, references, **settings):
        self._references, self._settings = references, settings
        self._evaluator, self._lock = None, threading.Lock()

    def file(self, name):
        """The file of a reference. Raises ToolError for a name that is none."""
        if name is None and len(self._references) == 1:
            name = next(iter(self._references))
        if name not in self._references:
            raise ToolError(f"there is no reference {name!r}; one of {', '.join(self._references)} is required")
        return self._references[name]

    def settings(self, name):
        return Settings(self.file(name), **self._settings)

    def judge(self, name, source):
        """The record of a kernel's text."""
        settings = self.settings(name)
        if len(source) > MAX_SOURCE:
            raise ToolError(f"the kernel has {len(source)} characters; at most {MAX_SOURCE} are required")
        with self._lock:
            if self._evaluator is None:
                self._evaluator = Evaluator(settings, 1)
            elif self._evaluator.settings.reference_path != settings.reference_path:
                self._evaluator.switch_to(settings.reference_path)
            return self._evaluator.evaluate({"id": "kernel", "source": source})

    def keep(self, name, source, folder):
        """Writes the program of a kernel's text, for `nkisim compare`; its path."""
        folder = pathlib.Path(folder)
        folder.mkdir()
        (folder / "kernel.py").write_text(source, encoding="utf-8")
        settings = self.settings(name)
        return save(settings.load(), {"path": str(folder / "kernel.py")}, folder, settings)

    def close(self):
        if self._evaluator is not None:
            self._evaluator.close()


def _summary(record):
    return {k: record[k] for k in _TOLD if record.get(k) not in (None, {}, [])}


def _say(command, *names, options=()):
    """What a command of nkisim prints as JSON. `names` are never options, whatever they begin with."""
    words = [program(), command, *map(str, options), "--json", "--", *map(str, names)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)
    except (OSError, ValueError) as problem:
        if not isinstance(problem, json.JSONDecodeError):  # a text that is no argument
            raise ToolError(str(problem)) from None
        raise ToolError(done.stderr.strip() or f"nkisim {command} said nothing") from None


def make(references, **settings):
    """The server and its Judges. references: {name: file}; settings: as nkisim.evaluate's."""
    judges = Judges(references, **settings)
    server = MCPServer("nkisim", instructions=INSTRUCTIONS)

    @server.tool("references")
    def listed() -> dict[str, str]:
        """The references by name, as text: what kernels are given and must give back."""
        return {name: pathlib.Path(path).read_text(encoding="utf-8") for name, path in references.items()}

    @server.tool()
    def evaluate(source: str, reference: str | None = None) -> dict[str, Any]:
        """Judges a kernel, Python text whose function is called `kernel` or is the only @nki.jit one: its status (ok,
        wrong, illegal, error, timeout, memory, crashed), simulated latency_us, what bounds it, or the error with rule
        and line. `reference` may be left out where there is one only."""
        return _summary(judges.judge(reference, source))

    @server.tool()
    def explain(name: str) -> dict[str, Any]:
        """What a rule, a kind of error or a metric means, with cause and cure."""
        found = _say("explain", name[:_MOST_NAME])
        found.pop("ok", None)
        return found

    @server.tool()
    def compare(before: str, after: str, reference: str | None = None) -> dict[str, Any]:
        """Judges two kernels' texts of one reference and says what changed: latencies, how many times faster the
        second is, and where the time went that is gone or new."""
        records = {name: judges.judge(reference, source) for name, source in (("before", before), ("after", after))}
        said = {name: _summary(record) for name, record in records.items()}
        if any(record["latency_us"] is None for record in records.values()):
            return said
        said["times_faster"] = records["before"]["latency_us"] / records["after"]["latency_us"]
        with tempfile.TemporaryDirectory(prefix="nkisim-mcp-") as folder:
            sessions = []
            for name, source in (("before", before), ("after", after)):
                path = judges.keep(reference, source, pathlib.Path(folder) / name)
                settings = judges.settings(reference)
                sessions.append(pathlib.Path(folder) / f"{name}.npz")
                _say("run", path, options=["--session", sessions[-1], "--root", path.parent,
                                           *options(settings, settings.load())])
            said["changes"] = _say("compare", *sessions, options=["--top", "8"])
        return said

    return server, judges
