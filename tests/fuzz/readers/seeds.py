"""Writes the small valid files with which the fuzzers of the C++ readers begin, a folder for each
reader.

    tests/fuzz/readers/seeds.py FOLDER [NKISIM]
"""

import gzip
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKEN = re.compile(r'"[A-Za-z_][A-Za-z0-9_.+ -]{0,40}"')
HOW = bytes([0b00101111])  # the last byte of job_run: all of it
OVERRIDES = ["dma.bytes_per_ns=23", "rules.matmul.fixed=3", "topology.cores=1", "dma.queues=x", "sbuf=\nname=1"]
JOBS = [{"nkisim_job": 1, "id": 7, "trace": "k.jsonl", "set": ["dma.bytes_per_ns=13.6"], "want": "time"},
        {"nkisim_job": 1, "trace": "k.jsonl", "switches": {"schedule": "list"}, "ranks": 4, "ring_order": "reverse",
         "expect": "e.npz", "rtol": 1e-3, "atol": 0, "budgets": ["total_time<=1us"],
         "max_time": "2", "max_memory": "1G"},
        {"nkisim_job": 1, "trace": "k.jsonl", "inputs": "i.npz", "arrays": {"x": "x.npy"}, "output_arrays": "y",
         "roots": ["/tmp"], "suppress": ["races"], "strict": True, "stochastic_rounding": 3, "html": "o.html"}]


def small_traces():
    """A trace for each case of each instruction that has values, and the tests' own with every form."""
    for file in sorted((ROOT / "isa/ops").glob("*.cases.json")):
        for number, case in enumerate(json.loads(file.read_text())[:3]):
            lines = [{"nisa": 1, "target": case["target"]}, *({"tensor": t} for t in case["tensors"]), *case["program"]]
            yield f"{file.name.split('.')[0]}{number}", "\n".join(map(json.dumps, lines)) + "\n"
    header = (ROOT / "tests/support/sample_trace.hpp").read_text()
    yield "sample", re.search(r'R"\((.*?)\)"', header, re.DOTALL).group(1)


def binary_form(text, program):
    with tempfile.TemporaryDirectory() as folder:
        trace, binary = pathlib.Path(folder, "k.jsonl"), pathlib.Path(folder, "k.nisa")
        trace.write_text(text)
        if subprocess.run([program, "convert", trace, "-o", binary], capture_output=True, check=False).returncode == 0:
            yield "trace_binary", binary.read_bytes()[8:]


def of_array(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def arrays():
    yield from (np.arange(6).astype(t).reshape(2, 3) for t in ("<f4", "<f2", "<f8", "<i4", "<u1", "<i8", "?"))
    yield from (np.zeros((2, 3), "V2"), np.float32(1), np.asfortranarray(np.ones((2, 3), "f4")), np.ones((0, 3), ">i8"))


def npz_files():
    for save in (np.savez, np.savez_compressed):
        for names in ({"y": np.ones((2, 3), "f4")}, {"y": np.ones((2, 3), "f8"), "n": np.ones(1, "i4")},
                      {"z": np.ones(3)}, {}):
            out = io.BytesIO()
            save(out, **names)
            yield out.getvalue()


def config_files():
    for name in ("trn1", "trn2", "trn3", "inf2"):
        yield json.dumps({"inherits": name}).encode()
    whole = json.loads((ROOT / "configs/trn2.json").read_text())
    for key, value in whole.items():
        if key not in ("inherits", "rules"):
            yield json.dumps({"inherits": "trn2", key: value}).encode()
    for rule in whole["rules"][::7]:
        yield json.dumps({"inherits": "trn2", "rules": [rule, {**rule, "id": "new", "before": rule["id"]}]}).encode()


def profile_files():
    text = (ROOT / "tests/src/data/profile_small.json").read_text()
    yield text.encode()
    for key, rows in json.loads(text).items():
        if key != "instruction":
            yield json.dumps({key: rows, "instruction": json.loads(text)["instruction"][:2]}).encode()


def seeds(program):
    """Pairs of a reader and a file for it."""
    for name, text in small_traces():
        yield "trace_text", text.encode()
        yield "job_run", text.encode() + HOW
        if name.endswith(("0", "sample")):
            yield from binary_form(text, program)
    for level, text in enumerate(["one\ntwo\n", "", "\x80\x01" * 40, "a" * 3000 + "\n"]):
        yield "trace_gzip", gzip.compress(text.encode(), level * 3)[3:]
    for config in config_files():
        yield "config", config
    for text in OVERRIDES:
        yield "override", text.encode()
    for job in JOBS:
        yield "job", json.dumps(job).encode()
    for array in arrays():
        yield "npy", of_array(array)[6:]
    for file in npz_files():
        yield "npz", file
    for file in profile_files():
        yield "profile", file


def write(folder, program):
    folder = pathlib.Path(folder)
    words = set()
    for number, (reader, content) in enumerate(seeds(program)):
        (folder / reader).mkdir(parents=True, exist_ok=True)
        (folder / reader / f"seed{number}").write_bytes(content)
        words.update(TOKEN.findall(content.decode(errors="ignore")))
    lines = (f'"{word[1:-1]}"\n' for word in sorted(words))
    (folder / "words.dict").write_text("".join(lines) + '"9223372036854775807"\n"1e308"\n"-1"\n"4294967296"\n')


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "build/release/nkisim"))
