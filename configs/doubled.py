#!/usr/bin/env python3
"""Writes configs/doubled.md: which numbers of trn2's machine description change no simulated time
when they are doubled, and why.

Usage: doubled.py (with the built nkisim and its Python package on the path, as tests have them)
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "configs"), str(ROOT / "traces")]
import probes  # noqa: E402

TRACES = ("flash_attention", "fp8_double_row", "gather_loop", "layernorm", "mamba_scan", "matmul_psum", "rmsnorm_rope",
          "semaphores", "softmax", "tensor_add", "transpose")
COLLECTIVES = (("all_reduce", "64K", "--ranks", "128"), ("all_gather", "64M", "--ranks", "512"),
               ("reduce_scatter", "8M", "--ranks", "64"), ("permute", "1M", "--ranks", "8"),
               ("permute", "1M", "--ranks", "8", "--group", "0,1"), ("permute", "1M", "--ranks", "8", "--group", "0,2"),
               ("barrier", "0", "--ranks", "8"),
               ("all_gather", "256M", "--ranks", "64"), ("all_reduce", "1M", "--ranks", "64", "--group", "0,9,17"),
               ("all_reduce", "1K", "--ranks", "3"), ("all_reduce", "64K", "--ranks", "64"))
TABLES = ("rules", "extras", "ports", "calibrated", "spread")  # by hand, not of config.def
INSTEAD_OF_0 = (1000, 1)  # of what is 0, so that doubling says nothing

FITS = "decides what fits, not how long it takes"
ONE_INSTANCE = "an instance of trn2 is a server of its own; targets of UltraServers (trn2u) have several"
NO_DATA_PATH = "SyncE has no data path: its instructions are of the sequencer, with durations in ns"
HELD = "counts where a trigger does not hold its sequencer (holds_sequencer false)"
WAKES = "counts with wake_base, which is 0"
DOUBT = "counts in windows that stream for nearly the threshold's share; tests/models/array_test.cpp has them"
WHY = {
    "pe_rows": "operands have at most 128 rows and columns, which the array already takes at once",
    "pe_columns": "operands have at most 128 rows and columns, which the array already takes at once",
    "array.lead": "moves the start of a product in profiles; the array is busy at the same times",
    "base_clock": "of cycle counts in reports only",
    "sbuf_partition_bytes": FITS, "psum_partition_bytes": FITS, "hbm.chip_bytes": FITS,
    "topology.server_link_bytes_per_ns": ONE_INSTANCE, "collectives.algorithms.hierarchical.step": ONE_INSTANCE,
    "topology.cc_cores_per_core": "names the CC-core that profiles show; the data move at the same rates",
    "collectives.instruction": "length of DMA_ADVANCE in profiles, within an operation's data phase",
    "collectives.algorithms.on_chip.base": "a phase of RDH, which no operation has by itself",
    "dma.hardware.interval_base": HELD, "dma.hardware.interval_per_descriptor": HELD,
    "dma.static.interval_base": HELD, "dma.static.interval_per_descriptor": HELD,
    "dma.hardware.wake_per_descriptor": WAKES, "dma.static.wake_per_descriptor": WAKES,
    "engines.sync.clock": NO_DATA_PATH, "engines.sync.issue": NO_DATA_PATH,
    "engines.sync.issue_after_sequencer": NO_DATA_PATH,
    "throttle.rise_doubt": DOUBT, "throttle.fall_doubt": DOUBT,
    "dma.uneven_word": "widens the interval of a latency, not the latency",
    "dma.floor_max_bytes": "descriptors above 512 B take longer than either floor at 27.2 B/ns",
}


def why(path, value, otherwise):
    """The reason why a doubled value changes no time, or None; `otherwise`: the value instead of 0 that changes one."""
    if otherwise is not None:
        return f"it is 0; {otherwise} changes times"
    return f"it is 0; {WHY[path]}" if value == 0 and path in WHY else WHY.get(path)


def keys(node, path=()):
    """(path, value) of each value of a resolved config that config.def has."""
    for key, entry in node.items():
        if isinstance(entry, dict) and "value" in entry:
            yield ".".join([*path, key]), entry["value"]
        elif isinstance(entry, dict) and key not in TABLES:
            yield from keys(entry, (*path, key))


def settings(value):
    """0, 1, half and double of a value; of other kinds than numbers, what is like it."""
    if isinstance(value, bool):
        return [False, True]
    if isinstance(value, (int, float)):
        half = value // 2 if isinstance(value, int) else value / 2
        return [0, 1, half, value * 2]
    if isinstance(value, list):
        return [[], [0] * len(value), [v / 2 for v in value], [v * 2 for v in value]]
    return ["", value]


class Programs:
    """The programs that are timed with each setting: traces, probes and collective operations."""

    def __init__(self, worker, program, folder):
        self._worker, self._program = worker, program
        self._jobs = {name: {"trace": str(ROOT / "traces" / f"{name}.jsonl"), "want": "all"} for name in TRACES}
        for name in probes.PROBES:
            path = Path(folder) / f"{name}.jsonl"
            path.write_text(probes.trace_of(name))
            self._jobs[name] = {"trace": str(path), **probes.JOBS.get(name, {"want": "time"})}
        self._base = {name: self._time(name, "pe_rows=128") for name in (*self._jobs, *COLLECTIVES)}
        refused = [base for base in self._base.values() if isinstance(base, str)]
        if refused:
            raise SystemExit(f"doubled.py: {refused[0]}")

    def _time(self, name, setting):
        """A latency, or the message where it is refused."""
        if name in self._jobs:
            outcome = self._worker.run({**self._jobs[name], "set": [setting]})
        else:
            said = subprocess.run([self._program, "collective", *name, "--json", "--set", setting],
                                  capture_output=True, text=True)
            outcome = json.loads(said.stdout)
        if "error" in outcome:
            return outcome["error"]["message"]
        return outcome["latency_us"] if name in self._jobs else outcome["duration_ns"]

    def effect(self, setting):
        """The message of a refusal; True if a time changes."""
        for name, usual in self._base.items():
            found = self._time(name, setting)
            if isinstance(found, str):
                return found
            if found != usual:
                return True
        return False


def effect_of_doubling(programs, path, value):
    """(effect, value instead of 0 that changes a time or None)."""
    if value != 0:
        return programs.effect(f"{path}={json.dumps(settings(value)[-1])}"), None
    acts = [other for other in INSTEAD_OF_0 if programs.effect(f"{path}={other}") is True]
    return False, acts[0] if acts else None


def doublings(some=None):
    """(path, value, effect of its doubling, value instead of 0 that changes a time or None) of each number of trn2's
    config, or of those paths."""
    from nkisim_work import Worker
    from nkisim_work.worker import program
    config = json.loads(subprocess.run([program(), "config", "show", "trn2"], capture_output=True, text=True,
                                       check=True).stdout)
    with Worker() as worker, tempfile.TemporaryDirectory() as folder:
        programs = Programs(worker, program(), folder)
        for path, value in keys(config):
            number = isinstance(value, (int, float, list)) and not isinstance(value, bool)
            if number and (some is None or path in some):
                yield path, value, *effect_of_doubling(programs, path, value)


def kept_row(path, value, otherwise):
    """The line of a doubling that changes no time; None without a reason."""
    reason = why(path, value, otherwise)
    return reason and f"| {path} | {json.dumps(value)} | {reason} |"


def refused_row(path, value, message):
    """The line of a doubling that is refused."""
    return f"| {path} | {json.dumps(value)} | {message.replace('|', ' ')} |"


def text():
    """The whole file."""
    kept, refused, moved, unexplained = [], [], 0, []
    for path, value, effect, otherwise in doublings():
        if isinstance(effect, str):
            refused.append(refused_row(path, value, effect))
        elif effect:
            moved += 1
        elif row := kept_row(path, value, otherwise):
            kept.append(row)
        else:
            unexplained.append(path)
    if unexplained:
        raise SystemExit(f"doubled.py: {', '.join(unexplained)}: changes no time when it is doubled; write a program in"
                         " probes.py in which it does, or the reason in WHY")
    return f"""# Doubled values

Each value of trn2's config was doubled, alone. {len(TRACES)} traces (`traces/`), {len(probes.PROBES)} small programs
(`configs/probes.py`) and {len(COLLECTIVES)} collective operations were timed. {moved} doublings change a time. These do
not:

| path | value | why |
|---|---|---|
{chr(10).join(kept)}

These are refused:

| path | value | message |
|---|---|---|
{chr(10).join(refused)}

This file is written by `configs/doubled.py`; do not edit.
"""


def main():
    (ROOT / "configs" / "doubled.md").write_text(text())


if __name__ == "__main__":
    main()
