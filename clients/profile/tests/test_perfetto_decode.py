"""Tests that the Perfetto file decodes with Perfetto's published protobuf definitions (PyPI: perfetto), and that its
slices per track are those of the summary."""
import collections
import json

import pytest

from perfetto_files import packets, slices
from running import ROOT, cli

pytestmark = pytest.mark.process


def flows(path):
    """Flow id -> (names of the slices that start it, of those that end it), from both forms."""
    found = collections.defaultdict(lambda: ([], []))
    if path.suffix == ".json":
        events = json.loads(path.read_text())["traceEvents"]
        slices_at = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
        for e in events:
            if e["ph"] in "sf":
                name = slices_at[e["pid"], e["tid"], e["ts"]]
                found[e["id"]][e["ph"] == "f"].append(name)
        return found
    for packet in packets(path.read_bytes()):
        if packet.HasField("track_event"):
            event = packet.track_event
            for ids, end in ((event.flow_ids, 0), (event.terminating_flow_ids, 1)):
                for number in ids:
                    found[number][end].append(event.name)
    return found


@pytest.mark.parametrize("kernel", ["flash_attention", "matmul_psum", "semaphores"])
def test_arrows_have_both_ends_and_are_those_of_chrome(tmp_path, kernel):
    files = [tmp_path / "k.pftrace", tmp_path / "k.json"]
    cli("run", ROOT / "traces" / f"{kernel}.jsonl", "--quiet", "--perfetto", files[0], "--chrome",
        files[1], "--perfetto-flows")
    perfetto, chrome = (flows(f) for f in files)
    ended = {number for number, (_, ends) in perfetto.items() if ends}
    assert ended, "no arrow ends"
    assert all(perfetto[number][0] for number in ended), "an end without a start"
    # The parts of an instruction start its arrow together.
    pairs = [sorted((sorted(starts), end) for starts, ends in form.values() for end in ends)
             for form in (perfetto, chrome)]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize("kernel", ["flash_attention", "matmul_psum", "semaphores"])
def test_slices_equal_the_summary(tmp_path, kernel):
    trace, summary = tmp_path / "k.pftrace", tmp_path / "k.json"
    cli("run", ROOT / "traces" / f"{kernel}.jsonl", "--quiet", "--perfetto", trace,
        "--perfetto-flows", "--summary-json", summary)
    metrics = next(iter(json.loads(summary.read_text()).values()))
    done, processes = slices(trace)
    assert "Instructions 0" in processes
    count, time = collections.Counter(), collections.Counter()
    for track, rows in done.items():
        engine = track.split(" Engine")[0].replace("TensorMatrix", "Tensor").lower()
        count[engine] += len(rows)
        time[engine] += sum(end - start for start, end, _, _ in rows)
        if engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
            assert all(args["opcode"] == name and args["operands"].startswith(name)
                       or name == "ACT_TABLE_LOAD" for _, _, name, args in rows), track
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
        expected = metrics[f"{engine}_engine_instruction_count"]
        assert count[engine] == expected
        # Time stamps are whole nanoseconds.
        assert abs(time[engine] - metrics[f"{engine}_engine_instruction_time"] * 1e9) <= expected
    queues = [t for t in done if t.startswith("q")]
    assert sum(len(done[t]) for t in queues) == metrics["dma_transfer_count"]
