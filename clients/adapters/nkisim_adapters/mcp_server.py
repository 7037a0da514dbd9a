"""Serves three tools to an AI agent by the Model Context Protocol: test and time a kernel, explain
an error, compare.
"""

import json
import pathlib
import subprocess
import tempfile
import threading
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

import nkisim
from nkisim_evaluate import Evaluator, Settings
from nkisim_evaluate.evaluator import MAX_SOURCE
from nkisim_evaluate.keeping import options
from nkisim_work import program

INSTRUCTIONS = """Judges NKI kernels for AWS NeuronCores (Trainium) by simulation: values against a reference, latency
in microseconds, rules of the machine with the kernel's line. Start with `references`; `evaluate` a kernel as Python
text with one function `kernel`; `explain` the rule of an error; `advise` says what would make a right kernel faster;
`compare` two kernels to see where the time of the faster one was saved. Answers have at most 2 KB; what was cut is in
`left_out`."""
_MOST_NAME = 4000
#: The most that an answer has, as JSON.
MOST_BYTES = 2048
#: The fields of a record that an agent needs to go on.
_REPORTED = ("status", "latency_us", "speedup", "verdict", "error", "flags", "seeds", "instructions",
         "sbuf_partition_bytes", "psum_partition_bytes")


def _refused(text):
    """A ToolError, whose text has the bound of an answer too."""
    return ToolError(text if len(text) <= MOST_BYTES // 4 else f"{text[:MOST_BYTES // 4]}...")


class EvaluatorPool:
    """One warm evaluator, for one reference after another. `references`: {name: file}."""

    def __init__(self, references, **settings):
        self._references, self._settings = references, settings
        self._evaluator, self._lock = None, threading.Lock()

    def file(self, name):
        """The file of a reference. Raises ToolError for a name that is none."""
        if name is None and len(self._references) == 1:
            name = next(iter(self._references))
        if name not in self._references:
            raise _refused(f"there is no reference {str(name)[:80]!r}; "
                           f"one of {', '.join(self._references)} is required")
        return self._references[name]

    def settings(self, name):
        return Settings(self.file(name), **self._settings)

    def judge(self, name, source, folder=None):
        """The record of a kernel's text. folder: one that is made and gets its program, if it is ok."""
        if folder is not None:
            folder.mkdir()
        settings = self.settings(name)
        if len(source) > MAX_SOURCE:
            raise _refused(f"the kernel has {len(source)} characters; at most {MAX_SOURCE} are required")
        with self._lock:
            if self._evaluator is None:
                self._evaluator = Evaluator(settings, 1)
            elif self._evaluator.settings.reference_path != settings.reference_path:
                self._evaluator.switch_to(settings.reference_path)
            return self._evaluator.evaluate({"id": "kernel", "source": source}, folder)

    def close(self):
        if self._evaluator is not None:
            self._evaluator.close()


def _summary(record):
    """A record with the interval of its latency; for an error, what `explain` and an editor need."""
    said = {k: record[k] for k in _REPORTED if record.get(k) not in (None, {}, [])}
    interval = (record.get("confidence") or {}).get("interval")
    if interval and said.get("latency_us"):
        said["four_of_five_cases_us"] = [round(interval["low_us"], 3), round(interval["high_us"], 3)]
    if "error" in said:
        left_out = ("text", "kernel_file", "file", "trace_line")
        said["error"] = {k: v for k, v in said["error"].items() if k not in left_out}
    return said


def _size(answer):
    """The bytes of the text that the agent reads, which the SDK indents."""
    return len(json.dumps(answer, ensure_ascii=False, indent=2).encode())


def _largest(value, path=()):
    """The list or text of most bytes in an answer: (bytes, path); texts below a line's length stay."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    best = max((_largest(v, (*path, k)) for k, v in items), default=(0, ()))
    if isinstance(value, list) and len(value) > 1 or isinstance(value, str) and len(value) > 120:
        return max(best, (_size(value), path)) if isinstance(value, str) or best[0] < 400 else best
    return best


def shortened_answer(answer, folder=None):
    """The answer in at most MOST_BYTES: lists lose their last items and texts their ends, the largest first. Paths in
    `folder`, which is gone by then, lose it."""
    text = json.dumps(answer)
    answer = json.loads(text.replace(f"{folder}/", "") if folder else text)
    cut = 0
    while _size(answer) > MOST_BYTES - 40:
        size, path = _largest(answer)
        if not size:
            break
        place, held = answer, answer
        for key in path:
            place, held = held, held[key]
        place[path[-1]] = held[:-1] if isinstance(held, list) else held[:max(100, len(held) * 3 // 4)] + "..."
        cut += 1
    return {**answer, "left_out": cut} if cut else answer


def _say(command, *names, options=()):
    """The JSON that a command of nkisim prints. `names` are never options, whatever they begin with."""
    words = [program(), command, *map(str, options), "--json", "--", *map(str, names)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)
    except (OSError, ValueError) as problem:
        if not isinstance(problem, json.JSONDecodeError):  # a text that is no argument
            raise _refused(str(problem)) from None
        raise _refused(done.stderr.strip() or f"nkisim {command} said nothing") from None


def _advice(judges, source, reference):
    with tempfile.TemporaryDirectory(prefix="nkisim-mcp-") as folder:
        kept = pathlib.Path(folder) / "kernel"
        said = _summary(judges.judge(reference, source, kept))
        if said["status"] != "ok":
            return shortened_answer(said)
        settings = judges.settings(reference)
        found = _say("advise", kept / "program.nisa", options=[
            "--top", "5", "--effort", "15", *options(settings, settings.load())])
        if "error" in found:
            raise _refused(found["error"]["message"])
        for key in ("ok", "exit_code", "trace", "seconds", "processor_seconds", "own_seconds", "variants"):
            found.pop(key, None)
        for finding in (*found["findings"], *((found["combined"] or {}).get("lines", ()))):
            finding["line"] = finding["line"].rpartition("/")[2]
        return shortened_answer(found, folder)


def _comparison(judges, before, after, reference):
    with tempfile.TemporaryDirectory(prefix="nkisim-mcp-") as folder:
        place = pathlib.Path(folder)
        records = {name: judges.judge(reference, source, place / name)
                   for name, source in (("before", before), ("after", after))}
        said = {name: _summary(record) for name, record in records.items()}
        if any(record["status"] != "ok" for record in records.values()):
            return shortened_answer(said)  # what is wrong or flagged is not faster
        said["times_faster"] = records["before"]["latency_us"] / records["after"]["latency_us"]
        settings, sessions = judges.settings(reference), [place / f"{name}.npz" for name in records]
        for name, session in zip(records, sessions):
            _say("run", place / name / "program.nisa", options=[
                "--session", session, "--root", place / name, *options(settings, settings.load())])
        said["changes"] = _say("compare", *sessions, options=["--top", "8"])
        return shortened_answer(said, folder)


def make(references, **settings):
    """The server and its Judges. references: {name: file}; settings: as nkisim.evaluate's."""
    judges = EvaluatorPool(references, **settings)
    server = MCPServer("nkisim", instructions=INSTRUCTIONS, version=nkisim.__version__)

    @server.tool("references")
    def listed(name: str | None = None, offset: int = 0) -> dict[str, Any]:
        """The references by name, as text: what kernels are given and must give back. Of one (`name`), from the
        character `offset` on; `next_offset` is where a longer text goes on."""
        texts = {n: pathlib.Path(path).read_text(encoding="utf-8") for n, path in references.items()}
        if name is None:
            most = max(100, (MOST_BYTES - 200) // max(1, len(texts)) * 3 // 4)
            return shortened_answer({
                n: text if len(text) <= most else f"{text[:most]}... ({len(text)} characters: name={n!r})"
                for n, text in texts.items()})
        text = texts[pathlib.Path(judges.file(name)).stem if name not in texts else name]
        part = text[offset:offset + MOST_BYTES // 2]
        return {name: part, **({"next_offset": offset + len(part)} if offset + len(part) < len(text) else {})}

    @server.tool()
    def evaluate(source: str, reference: str | None = None) -> dict[str, Any]:
        """Judges a kernel, Python text whose function is called `kernel` or is the only @nki.jit one: its status (ok,
        wrong, illegal, error, timeout, memory, crashed), simulated latency_us, what bounds it, or the error with rule
        and line. `reference` may be left out where there is one only."""
        return shortened_answer(_summary(judges.judge(reference, source)))

    @server.tool()
    def explain(name: str) -> dict[str, Any]:
        """The meaning of a rule, a kind of error or a metric, with cause and cure."""
        found = _say("explain", name[:_MOST_NAME])
        found.pop("ok", None)
        return shortened_answer(found)

    @server.tool()
    def advise(source: str, reference: str | None = None) -> dict[str, Any]:
        """Finds what would make a right kernel faster: changes with their lines, each simulated with equal values,
        and what they come to together. The first is the one to make."""
        return _advice(judges, source, reference)

    @server.tool()
    def compare(before: str, after: str, reference: str | None = None) -> dict[str, Any]:
        """Judges two kernels' texts of one reference and says what changed: latencies, how many times faster the
        second is, and where the time went that is gone or new."""
        return _comparison(judges, before, after, reference)

    return server, judges
