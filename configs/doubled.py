#!/usr/bin/env python3
"""Writes configs/doubled.md: which values of trn2's config change no time of the traces when they are doubled.

Usage: doubled.py (with the built nkisim and its Python package on the path, as tests have them)
"""
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRACES = ("flash_attention", "fp8_double_row", "gather_loop", "layernorm", "mamba_scan", "matmul_psum", "rmsnorm_rope",
          "semaphores", "softmax", "tensor_add", "transpose")
COLLECTIVES = (("all_reduce", "64K", "--ranks", "128"), ("all_gather", "64M", "--ranks", "512"),
               ("reduce_scatter", "8M", "--ranks", "64"), ("permute", "1M", "--ranks", "8"))
TABLES = ("rules", "extras", "ports", "calibrated", "spread")  # by hand, not of config.def
WHY = {
    "pe_rows": "operands fill 128 rows and columns", "pe_columns": "operands fill 128 rows and columns",
    "base_clock": "of cycle counts in reports only",
    "sbuf_partition_bytes": "decides what fits, not how long it takes",
    "psum_banks": "decides what fits, not how long it takes",
    "psum_partition_bytes": "decides what fits, not how long it takes",
    "hbm.chip_bytes": "decides what fits, not how long it takes",
    "topology.cores_per_chip": "decides which ranks share a chip",
}


WHY_ALL = {
    "dma.software.": "no DMA here has descriptors that GpSimd writes",
    "dma.hardware.trigger.": "other engines trigger the DMAs here",
    "dma.static.trigger.": "other engines trigger the DMAs here",
}


def why(path, value):
    if not value:
        return "it is 0"
    of_all = [words for prefix, words in WHY_ALL.items() if path.startswith(prefix)]
    return WHY.get(path, *of_all) if of_all else WHY.get(path, "")


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


def time_of_collective(program, words, setting):
    said = subprocess.run([program, "collective", *words, "--json", "--set", setting], capture_output=True, text=True)
    return said.stdout if said.returncode == 0 else f"refused: {json.loads(said.stdout)['error']['message']}"


def times(worker, program, setting):
    """All latencies with a setting; the message where it is refused."""
    found = []
    for trace in TRACES:
        outcome = worker.run({"trace": str(ROOT / "traces" / f"{trace}.jsonl"), "want": "all", "set": [setting]})
        if "error" in outcome:
            return outcome["error"]["message"]
        found.append(outcome["latency_us"])
    for words in COLLECTIVES:
        said = time_of_collective(program, words, setting)
        if said.startswith("refused"):
            return said
        found.append(said)
    return found


def main():
    from nkisim_work import Worker
    from nkisim_work.worker import program
    config = json.loads(subprocess.run([program(), "config", "show", "trn2"], capture_output=True, text=True,
                                       check=True).stdout)
    kept, refused, moved = [], [], 0
    with Worker() as worker:
        base = times(worker, program(), "pe_rows=128")
        for path, value in keys(config):
            if isinstance(value, bool) or not isinstance(value, (int, float, list)):
                continue
            doubled = settings(value)[-1]
            found = times(worker, program(), f"{path}={json.dumps(doubled)}")
            if isinstance(found, str):
                refused.append(f"| {path} | {json.dumps(value)} | {found.replace('|', ' ')} |")
            elif found == base:
                kept.append(f"| {path} | {json.dumps(value)} | {why(path, value)} |")
            else:
                moved += 1
    text = f"""# Doubled values

Each value of trn2's config was doubled, alone, and {len(TRACES)} traces (`traces/`) and {len(COLLECTIVES)} collective
operations were timed. {moved} doublings change a time. These do not: of them no trace here says anything.

| path | value | why |
|---|---|---|
{chr(10).join(kept)}

These are refused:

| path | value | message |
|---|---|---|
{chr(10).join(refused)}

This file is written by `configs/doubled.py`; do not edit.
"""
    (ROOT / "configs" / "doubled.md").write_text(text)


if __name__ == "__main__":
    main()
