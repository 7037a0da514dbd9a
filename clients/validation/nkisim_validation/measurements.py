"""Reads the measurements file of `nkisim calibrate`: each value with the program that it was measured on.

    {"measurements": [
       {"trace": "add.nisa", "metric": "total_time", "value": 28.36, "unit": "us", "overhead": 15.35},
       {"profile": "attention.json.gz"}]}

`trace` is what `nkisim run` reads and `metric` a name in its --summary-json. `value` is what the chip
showed and `overhead` what this contains beyond the kernel, both in `unit` (default: the summary's:
s, bytes, counts, fractions of 1). `profile` is decoded JSON of neuron-profile: its instruction stream
is replayed, and total time, mean duration per opcode and DMA packet time are compared. Paths are
relative to the file. `weight` (default 1) counts a row more or less, `id` names it.
"""

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

from nkisim_work import foreign

from .program import Failed

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "percent": 1e-2, "": 1.0}
TRACE_KEYS = {"id", "trace", "metric", "value", "unit", "overhead", "weight"}
PROFILE_KEYS = {"id", "profile", "weight"}


@dataclass
class Row:
    """One measured figure, or all figures of a profile. Values are in the summary's units."""

    name: str
    program: Path  # trace or profile; rows of one program are never parted by the hold-out
    metric: str = ""  # "" for a profile
    value: float = 0.0
    overhead: float = 0.0
    weight: float = 1.0


def _number(row, key, default, where, least=None):
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Failed(f"{where}: {key} is {value!r}; a number is required")
    if least is not None and value <= least:
        raise Failed(f"{where}: {key} is {value!r}; more than {least} is required")
    return float(value)


def _row(entry, number, file):
    where = f"{file}: measurement {number}"
    if not isinstance(entry, dict) or ("trace" in entry) == ("profile" in entry):
        raise Failed(f"{where}: an object with either trace or profile is required")
    known = TRACE_KEYS if "trace" in entry else PROFILE_KEYS
    unknown = sorted(set(entry) - known)
    if unknown:
        raise Failed(f"{where}: {unknown[0]!r} is not a key; {', '.join(sorted(known))} are")
    named = entry.get("trace", entry.get("profile"))
    if not isinstance(named, str) or "\0" in named:
        raise Failed(f"{where}: {named!r:.80} is no file's name")
    program = file.parent / named
    if not os.path.isfile(program):
        raise Failed(f"{where}: {program} is not a file")
    weight = _number(entry, "weight", 1.0, where, least=0)
    if "profile" in entry:
        return Row(str(entry.get("id", program.name)), program, weight=weight)
    if not isinstance(entry.get("metric"), str):
        raise Failed(f"{where}: metric is missing; a name of --summary-json is required")
    unit = entry.get("unit", "")
    if not isinstance(unit, str) or unit not in UNITS:
        raise Failed(f"{where}: unit {unit!r}; {', '.join(u for u in UNITS if u)} are known")
    value = _number(entry, "value", None, where, least=0) * UNITS[unit]
    overhead = _number(entry, "overhead", 0.0, where) * UNITS[unit]
    name = str(entry.get("id", f"{program.name} {entry['metric']}"))
    return Row(name, program, entry["metric"], value, overhead, weight)


def read(path):
    """Rows of a measurements file; Failed names the file and the measurement."""
    file = Path(path)
    try:
        table = foreign.read(file)
    except OSError as problem:
        raise Failed(f"{file}: {problem.strerror}") from None
    except ValueError as problem:
        raise Failed(f"{file}: {problem}") from None
    entries = table.get("measurements") if isinstance(table, dict) else None
    if not isinstance(entries, list) or not entries:
        raise Failed(f'{file}: an object with a list "measurements" is required')
    return [_row(entry, number, file) for number, entry in enumerate(entries)]


def split(rows, fraction, seed):
    """(fitted, held back): whole programs, in an order that depends on their names and `seed`."""
    programs = sorted({r.program for r in rows},
                      key=lambda p: (hashlib.sha256(f"{seed} {p.name}".encode()).hexdigest(), str(p)))
    count = round(fraction * len(programs))
    if fraction > 0:
        count = max(1, count)
    if count >= len(programs):
        raise Failed(f"--hold-out {fraction:g} leaves none of {len(programs)} programs to fit",
                     code=2)
    held = set(programs[:count])
    return [r for r in rows if r.program not in held], [r for r in rows if r.program in held]
