"""Tests that a run's timeline is the same in all forms: Perfetto's protobuf, Chrome's JSON, and
both made from a saved profile file.
"""

import collections
import json

import pytest

from perfetto_files import slices as perfetto_slices
from running import ROOT, cli

pytestmark = pytest.mark.process


def chrome_slices(path):
    """{track: [(start ns, end ns, name, args)]} and the process names; checks the nesting."""
    events = json.loads(path.read_text())["traceEvents"]

    def named(what):
        return {(e["pid"], e.get("tid") if what == "thread_name" else 0): e["args"]["name"]
                for e in events if e["ph"] == "M" and e["name"] == what}

    threads, processes = named("thread_name"), named("process_name")
    done = collections.defaultdict(list)
    for e in events:
        assert e["ph"] in "XMiCsf"
        if e["ph"] == "X":
            start, duration = round(e["ts"] * 1000), round(e["dur"] * 1000)
            assert abs(start - e["ts"] * 1000) < 1e-6
            done[threads[e["pid"], e["tid"]]].append((start, start + duration, e["name"], e["args"]))
    return done, set(processes.values())


def plain(done, keys=("id", "operands", "transfer_size")):
    return {track: [(a, b, name, [args.get(k) for k in keys]) for a, b, name, args in rows]
            for track, rows in done.items()}


@pytest.mark.parametrize("kernel", ["flash_attention", "matmul_psum", "semaphores"])
def test_chrome_and_profile_file_give_the_slices_of_perfetto(tmp_path, kernel):
    files = {n: tmp_path / n for n in ("a.pftrace", "a.json", "s.npz", "b.pftrace", "b.json")}
    cli("run", ROOT / "traces" / f"{kernel}.jsonl", "--quiet", "--perfetto", files["a.pftrace"],
        "--chrome", files["a.json"], "--session", files["s.npz"])
    for form, name in (("perfetto", "b.pftrace"), ("chrome", "b.json")):
        cli("view", files["s.npz"], "--output-format", form, "-o", files[name])
    reference, processes = perfetto_slices(files["a.pftrace"])
    assert sum(map(len, reference.values())) > 20
    for name, read in (("a.json", chrome_slices), ("b.pftrace", perfetto_slices),
                       ("b.json", chrome_slices)):
        done, names = read(files[name])
        assert plain(done) == plain(reference), name
        assert names - {""} == processes - {""}


def test_counters_of_memory_and_flows(tmp_path):
    out = tmp_path / "k.json"
    cli("run", ROOT / "traces" / "matmul_psum.jsonl", "--quiet", "--chrome", out, "--perfetto-flows")
    events = json.loads(out.read_text())["traceEvents"]
    counters = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "C":
            counters[e["name"]].append(e["args"]["value"])
    for name in ("Sb Usage", "Psum Usage"):
        assert max(counters[name]) <= 1 and counters[name][-1] == 0 and max(counters[name]) > 0
    starts = {e["id"] for e in events if e["ph"] == "s"}
    ends = {e["id"] for e in events if e["ph"] == "f"}
    assert ends and ends <= starts


def test_compressed_chrome_trace(tmp_path):
    import gzip

    plain_file, packed = tmp_path / "k.json", tmp_path / "k.json.gz"
    cli("run", ROOT / "traces" / "softmax.jsonl", "--quiet", "--chrome", plain_file)
    cli("run", ROOT / "traces" / "softmax.jsonl", "--quiet", "--chrome", packed)
    assert gzip.decompress(packed.read_bytes()) == plain_file.read_bytes()
