"""Implements the command line of `nkisim evaluate`, which tests and times submitted kernels."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from nkisim_work import ProgressLine, times
from nkisim_work.options import Parser

from .api import evaluate
from .evaluator import Evaluator, Settings, as_candidate, parse_bytes
from .reference import BadReference

EXAMPLES = """
nkisim evaluate --reference ref.py --candidates kernels/ --target trn2 --jsonl results.jsonl
nkisim evaluate --reference ref.py --candidates a.py b.py --baseline a.py
producer | nkisim evaluate --reference ref.py --candidates - > results.jsonl"""
NOTES = """
With - each line of standard input is a JSON object with "source" or "path" and optionally "id", "kernel", "grid"
and "params"; each gives one line. --shard 3/16: the 16 shards of the same candidates, on any machines, are all of
them, each once. docs/evaluate.md has the fields of a record and what is flagged.
Exit codes: 0 all candidates are ok, 1 some are not, 2 usage, 3 bad reference, 130 interrupted."""
_LINE_BYTES = 64 << 20


def size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def shard(text: str) -> tuple[int, int]:
    """"3/16" as (3, 16)."""
    number, found, shards = text.partition("/")
    if not found or not number.isdecimal() or not shards.isdecimal() or not 1 <= int(number) <= int(shards):
        raise argparse.ArgumentTypeError(f"{text!r}; K/N with 1 <= K <= N is required")
    return int(number), int(shards)


def setting(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise argparse.ArgumentTypeError(f"{text!r}; PATH=VALUE is required")
    return name, value


def common(parser: Parser) -> None:
    """Options that `tune` has as well."""
    add = parser.option
    add("reference", required=True)
    add("target")
    add("config")
    add("set", type=setting)
    add("grid")
    add("jobs", default=os.cpu_count() or 1)
    add("scheduler")
    add("timeout")
    add("memory", type=size)
    add("seeds", type=lambda t: [int(s) for s in t.split(",")])
    add("no-values")
    add("allow-flags")
    add("cache")
    parser.add_argument("--json", action="store_true")


def settings(args: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The keyword arguments of Settings."""
    return dict(target=args.target, config=args.config, overrides=dict(args.set), grid=args.grid,
                timeout=args.timeout, memory=args.memory, values=not args.no_values,
                seeds=args.seeds, allow_flags=args.allow_flags, **more)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser("evaluate", "--reference REF.py --candidates FILE ... [options]",
                    "Judges candidate kernels: values, time, rules.", EXAMPLES, NOTES)
    common(parser)
    add = parser.option
    add("candidates", nargs="+", required=True)
    add("function", dest="kernel")
    add("baseline")
    add("stop-slower")
    add("advise")
    add("shard", type=shard)
    add("jsonl")
    args = parser.parse_args(words)
    if args.jobs < 1:
        parser.error("--jobs needs 1 or more")
    if "-" in args.candidates and len(args.candidates) > 1:
        parser.error("--candidates - stands alone")
    if args.stop_slower and not args.baseline:
        parser.error("--stop-slower needs --baseline")
    return args


def _refuse(text):
    raise ValueError(f"{text} is not JSON")


def _finite(text):
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)  # what cannot be written again


def lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Candidates from JSON lines; what is none becomes a candidate that says so."""
    number = 0
    while True:
        line = stream.readline(_LINE_BYTES)
        if not line:
            return
        number += 1
        if not line.strip():
            continue
        try:
            item = json.loads(line, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError) as problem:
            item = problem
        if not isinstance(item, dict):
            item = {"id": f"line {number}", "invalid": f"line {number} is no JSON object"}
        item.setdefault("id", f"line {number}")
        yield item


def files(names: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Candidates from files, and from the Python files of folders in their order."""
    for name in names:
        path = pathlib.Path(name)
        if path.is_dir():
            found = sorted(path.glob("*.py"))
            yield from (as_candidate(str(p)) for p in found)
            if not found:
                yield {"id": name, "invalid": f"the folder {name} has no Python file; one at least is required"}
        else:
            yield as_candidate(name)


def baseline(args: argparse.Namespace) -> float | None:
    """The latency in us that speed-ups are over, or None."""
    if args.baseline is None:
        return None
    try:
        return float(args.baseline)
    except ValueError:
        pass
    with Evaluator(Settings(args.reference, kernel=args.kernel, **settings(args)), 1) as one:
        record = one.evaluate(as_candidate(args.baseline))
    if record["status"] != "ok":
        raise BadReference(f"--baseline {args.baseline} is {record['status']}: {record['error']['message']}; "
                           "a kernel that is ok is required")
    return record["latency_us"]


def text_of_record(record: Mapping[str, Any]) -> str:
    """A record as one line for people."""
    latency = record["latency_us"]
    time_text = "" if latency is None else times.time_text(latency)
    faster = "" if record["speedup"] is None else f"{record['speedup']:.2f}x"
    if "faster_likely" in record:
        faster += f" ({100 * record['faster_likely']:.0f} %)"
    message = record.get("error", {}).get("message", "").splitlines()[:1]
    if record.get("error", {}).get("kernel_line"):
        message = [f"line {record['error']['kernel_line']}: {''.join(message)}"]
    return f"{record['status']:<8} {time_text:>14} {faster:>13}  {record['id']}" + (
        f"  {message[0]}" if message else "")


def is_cut_short(path: str) -> bool:
    """True if the last line of a regular file has no end."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class _Sink:
    """The destination of records: standard output, and a file of lines that is whole whenever this ends."""

    def __init__(self, args: argparse.Namespace, as_json: bool) -> None:
        self._json = as_json
        self._file = open(args.jsonl, "ab", buffering=0) if args.jsonl else None  # noqa: SIM115
        if self._file and is_cut_short(args.jsonl):
            self._file.write(b"\n")
        self.counts: dict[str, int] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        self.counts[record["status"]] = self.counts.get(record["status"], 0) + 1
        line = json.dumps(record, allow_nan=False)
        if self._file:
            self._file.write(line.encode() + b"\n")
        print(line if self._json else text_of_record(record), flush=True)

    def close(self) -> None:
        if self._file:
            self._file.close()


def run(args: argparse.Namespace) -> int:
    """The exit code."""
    service = args.candidates == ["-"]
    sink, begin = _Sink(args, args.json or service), time.monotonic()
    given = lines(sys.stdin.buffer) if service else files(args.candidates)
    try:
        with ProgressLine("computing the reference, starting workers") as progress:
            more = dict(kernel=args.kernel, baseline=baseline(args), stop_slower=args.stop_slower,
                        advise=args.advise)
            for record in evaluate(args.reference, given, args.jobs, args.cache, args.scheduler,
                                   shard=args.shard, **settings(args, **more)):
                sink.add(record)
                progress.say(f"{sum(sink.counts.values())} judged")
    finally:
        sink.close()
    total, seconds = sum(sink.counts.values()), time.monotonic() - begin
    said = ", ".join(f"{n} {status}" for status, n in sorted(sink.counts.items()))
    print(f"nkisim evaluate: {total} candidates in {seconds:.1f} s: {said or 'none'}",
          file=sys.stderr)
    return 0 if set(sink.counts) <= {"ok"} else 1


def main(words: Sequence[str]) -> int:
    args = arguments(words)
    try:
        return run(args)
    except (BadReference, OSError) as problem:
        print(f"nkisim evaluate: {problem}", file=sys.stderr)
        return 3
