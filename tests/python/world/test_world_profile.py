"""Tests the profile of several ranks: tables, accounting, the path from rank to rank, merged
timelines.
"""

import json

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from running import cli
from nkisim_profile import timeline, world
from nkisim_profile.report import world as page
from nkisim_profile.session import Session
from nkisim_profile.tables import SCHEMA, TABLES

pytestmark = pytest.mark.process


def test_a_row_of_an_operation_is_of_the_rank_that_came_last():
    def of(rank, start, end):
        return {"id": 7, "rank": rank, "start": start * 10 ** 9, "end": end * 10 ** 9, "operation": "all_reduce",
                "algorithm": "ring", "group": "0-1", "input": 4096, "output": 1024}
    assert list(page.rows([of(0, 2, 9), of(1, 5, 9)])) == [
        ["7", "all_reduce", "ring", "0-1", "4,096", "5.000 us", "4.000 us", "1", "3.000 us (rank 0)"]]
    assert list(page.rows([of(0, 2, 9)]))[0][-1] == ""


RANKS, LATE, BYTES = 4, 1, 128 * 16 * 4
WORK = [1, 40, 5, 1]  # activations of each rank before it comes


def kernel(x, work):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.full((128, 512), 1.0, dtype=nl.float32)
    for _ in nl.dynamic_range(nisa.register_alloc(nl.load(work))):
        nisa.activation(dst=t, op=nl.exp, data=t)
    mine = nl.load(x)
    nisa.tensor_tensor(dst=mine, data1=mine, data2=t[:, 0:16], op=nl.multiply)
    nisa.dma_copy(dst=src, src=mine)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(RANKS))]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trace on four ranks of LNC 2's target, of which one comes late: sessions and what was said."""
    folder = tmp_path_factory.mktemp("world")
    x = [np.zeros((128, 16), np.float32) for _ in range(RANKS)]
    work = [np.array([[n]], np.int32) for n in WORK]
    result = nkisim.run(kernel, nkisim.per_rank(x), nkisim.per_rank(work), ranks=RANKS, target="trn2",
                        timing=False)
    result.save(folder / "k.nisa")
    said = cli("run", folder / "k.nisa", "--explain", "--session", folder / "{rank}.npz",
               "--accounting-json", folder / "{rank}.json", "--chrome",
               folder / "{rank}.trace.json", "--summary-json", folder / "summary.{rank}.json").stdout
    return folder, [Session(folder / f"{r}.npz") for r in range(RANKS)], said


def test_every_rank_has_its_row(run):
    _, sessions, _ = run
    rows = [TABLES["CcOp"](s) for s in sessions]
    for row in rows:
        assert set(row) <= {c[0] for c in SCHEMA["CcOp"]}
        assert [row[k][0] for k in ("operation", "algorithm", "dtype", "replica_group",
                                    "input_size", "output_size", "num_elements")] == [
            "AllReduce", "Mesh", "float32", "[[0, 1, 2, 3]]", BYTES, BYTES, BYTES // 4]
    ends = {int(row["end_ts"][0]) for row in rows}
    assert len(ends) == 1  # all at once
    durations = [int(row["duration_ns"][0]) for row in rows]
    # The late rank's own is the operation, the others' contain waiting for it.
    assert durations[LATE] == min(durations)
    assert durations[LATE] == pytest.approx(13_331, rel=0.15)
    assert durations[0] - durations[LATE] == pytest.approx(39 * 705, rel=0.2)  # ACTIVATEs of 512
    for row in rows:
        assert int(row["cc_trigger_start_delay"][0]) == 1810
        n = RANKS
        assert row["bus_bandwidth"][0] == pytest.approx(
            2 * (n - 1) / n * BYTES / row["duration_ns"][0] * 1e9)


def test_cc_cores_are_busy_while_an_operation_is(run):
    _, sessions, _ = run
    for rank, s in enumerate(sessions):
        op, found, streams = (TABLES[t](s) for t in ("CcOp", "CcInstruction", "CcStream"))
        assert found["start_ts"][0] == op["start_ts"][0]
        assert found["end_ts"].max() == op["end_ts"][0]
        assert (found["start_ts"][1:] == found["end_ts"][:-1]).all()
        assert {d.partition("_")[0] for d in found["description"]} == {"SEMAPHORE", "DMA"}
        first = rank % 8 * 2  # LNC 1: two CC-cores for each of a chip's eight ranks
        assert streams["cc_core_ids"] == [str([first, first + 1])]
        assert set(found["core_idx"]) == {first}


def test_the_summary_adds_the_tables_up(run):
    folder, sessions, _ = run
    for rank, s in enumerate(sessions):
        summary = json.loads((folder / f"summary.{rank}.json").read_text())["nc_0"]
        op, instructions = TABLES["CcOp"](s), TABLES["CcInstruction"](s)
        assert summary["cc_op_count"] == 1
        assert summary["cc_op_time"] == pytest.approx(op["duration_ns"].sum() * 1e-9, rel=1e-3)
        assert summary["cc_op_active_time"] == summary["cc_op_time"]
        assert summary["cc_cores_instruction_count"] == len(instructions["start_ts"])
        assert summary["cc_op_active_time_percent"] == pytest.approx(
            summary["cc_op_time"] / summary["total_time"])


def test_waiting_is_charged_to_the_rank(run):
    folder, sessions, _ = run
    for rank in range(RANKS):
        (core,) = json.loads((folder / f"{rank}.json").read_text())["cores"]
        end = sessions[rank].end_fs
        for total in [e["total_fs"] for e in core["engines"].values()] + [
                q["total_fs"] for q in core["dma_queues"].values()]:
            assert sum(total.values()) == end
        (queue,) = [q["total_fs"] for name, q in core["dma_queues"].items() if "ollective" in name]
        waited = queue.get(f"waiting for rank {LATE}", 0)
        c = sessions[rank].collectives
        assert waited == int((c.ready - c.start)[0])
        assert (waited == 0) == (rank == LATE)
        # Its end, and what came before it started, are the operation's own.
        assert queue["in collective"] == int(c.end[0] - c.trigger_end[0]) - waited


def test_the_path_goes_through_the_late_rank(run):
    _, sessions, said = run
    path = sessions[0].facts["world"]["path"]
    assert all(s.facts["world"]["path"] == path for s in sessions)
    assert path[0]["from_fs"] == 0
    assert all(a["to_fs"] == b["from_fs"] for a, b in zip(path, path[1:]))
    assert path[-1]["to_fs"] == max(s.end_fs for s in sessions)
    operation = next(i for i, p in enumerate(path) if p["cause"] == "collective")
    assert {p["rank"] for p in path[:operation]} == {LATE}
    assert not [p for p in path if p["cause"] == "wait_rank"]
    # The rank's own path can only say whom it waited for.
    own = sessions[0].path
    assert 13 in own.cause.tolist()
    assert "in collectives" in said and "critical path of the world" in said


def test_a_merged_timeline(run):
    folder, sessions, _ = run
    ranks = world.read([folder / f"{r}.npz" for r in range(RANKS)])
    events = json.loads(timeline.write_chrome(*world.timeline_of(ranks), title=world.title))
    events = events["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert set(names.values()) == {"Collectives of all ranks",
                                   *(f"Rank {r} core 0" for r in range(RANKS))}
    of_world = next(pid for pid, name in names.items() if name == "Collectives of all ranks")
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == of_world]
    assert sum(e["name"] == "AllReduce" for e in slices) == RANKS
    assert sum(e["name"] == f"waiting for rank {LATE}" for e in slices) == RANKS - 1
    assert sum(e["ph"] == "s" for e in events) == RANKS - 1
    assert len([e for e in events if e["ph"] == "X"]) > sum(len(s.parts) for s in sessions)


def test_a_merged_timeline_for_perfetto(run):
    pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    folder, _, _ = run
    ranks = world.read([folder / f"{r}.npz" for r in range(RANKS)])
    trace = pb.Trace()
    trace.ParseFromString(timeline.write_perfetto(*world.timeline_of(ranks), title=world.title))
    descriptors = [p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")]
    assert len({d.uuid for d in descriptors}) == len(descriptors)
    flows = [n for p in trace.packet for n in p.track_event.flow_ids]
    assert sorted(flows) == sorted(2 * sorted(set(flows))) and len(set(flows)) == RANKS - 1


def test_merged_files(run):
    folder, _, _ = run
    files = [str(folder / f"{r}.npz") for r in range(RANKS)]
    out = folder / "all.pftrace"
    cli("view", *files, "-f", "chrome", "-o", out)
    assert json.loads(out.read_text())["traceEvents"]
    for form, name in (("perfetto", "profile.pftrace"), ("chrome", "profile.trace.json")):
        (folder / form).mkdir()
        cli("view", *files, "-f", form, cwd=folder / form)
        assert [p.name for p in (folder / form).iterdir()] == [name]  # without a name
    html = folder / "all.html"
    cli("report", *files, "-o", html)
    text = html.read_text()
    assert "@DATA@" not in text
    data = json.loads(text.split('type="application/json">')[1].split("</script>")[0])
    assert [r["rank"] for r in data["ranks"]] == list(range(RANKS))
    done = cli("view", *files, "-f", "parquet", "-o", folder / "t", code=None)
    assert done.returncode == 3 and "several sessions" in done.stderr
    done = cli("view", files[0], files[0], "-f", "chrome", "-o", out, code=None)
    assert done.returncode == 3 and "not the ranks of one run" in done.stderr


def test_the_timeline_of_a_rank_has_its_cc_core(run):
    folder, sessions, _ = run
    for rank, s in enumerate(sessions):
        events = json.loads((folder / f"{rank}.trace.json").read_text())["traceEvents"]
        rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        mine = [(rows[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in events
                if e["ph"] == "X" and "CC-core" in rows[e["pid"], e["tid"]]]
        again = [(track, name, a / 1000, (b - a) / 1000) for _, track, name, a, b, _ in
                 timeline.slices(s) if "CC-core" in track]
        assert sorted(mine) == sorted(again)
        assert "AllReduce" in {name for _, name, _, _ in mine}


def test_the_page_escapes_what_it_shows(run):
    folder, _, _ = run
    ranks = world.read([folder / f"{r}.npz" for r in range(RANKS)])
    ranks.path = [{**ranks.path[0], "source": "</script><b>"}]
    assert "</script><b>" not in page.render(ranks).split('type="application/json">')[1].split(
        "</script>")[0]
    assert page.render(ranks).count("</script>") == 2


def test_the_page_counts_overlapping_operations_once(run):
    """Three operations of 10 us, each triggered 4 us after the one before it, the second 2 us late."""
    _, sessions, _ = run
    us = 10 ** 9
    operations = [{"rank": 0, "id": n, "trigger_end": 4 * n * us, "start": (4 * n + 1) * us,
                   "ready": (4 * n + 1 + 2 * (n == 1)) * us, "end": (4 * n + 10) * us, "waited_for": -1,
                   "operation": "Permute", "algorithm": "Direct", "group": "[[0, 1]]"} for n in range(3)]
    shown = page.lane(0, sessions[0], operations)
    run_us = sessions[0].end_fs / us
    assert shown["inside"] == f"{100 * (18 - 2) / run_us:.1f} %" and shown["waiting"] == f"{100 * 2 / run_us:.1f} %"
    start, end = sessions[0].facts["span_fs"]
    assert shown["latency"] == (end - start) / 10 ** 6


def contending(x, big, other):
    """Loads, during an all-reduce or alone."""
    dst = nl.ndarray(big.shape, dtype=big.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    if other:
        ncc.all_reduce([big], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
    total = nl.full((128, 2048), 0.0, dtype=nl.float32)
    for k in range(x.shape[1] // 2048):
        nisa.tensor_copy(dst=total, src=nl.load(x[:, k * 2048:(k + 1) * 2048]))
    if nl.program_id(0) == 0:
        nl.store(out, total)
    return out


def test_a_kernel_shares_its_dma_and_memory_with_collectives():
    """Its own transfers during an operation take longer: a large one takes bandwidth of the stack (two
    cores to a rank), a small one moves as descriptors on the rings."""
    def latency(rows, **options):
        x, big = np.zeros((128, 65536), np.float32), np.zeros((rows, 1024), np.float32)
        return nkisim.run(contending, x, big, grid=2, ranks=2, fold=False, any_world=True,
                          timing="only", target="trn2", **options)[0].latency_us

    assert latency(2048, other=True) > 1.1 * latency(2048, other=False)
    assert latency(64, other=True) != latency(64, other=True,
                                               overrides={"collectives.ring_bytes": 0})


def test_a_result_writes_its_page_and_sessions(tmp_path):
    """From what the ranks began with: `x` has changed since, and decides how many activations there are."""
    x = np.ones((128, 16), np.float32)
    work = [np.array([[n]], np.int32) for n in WORK]
    result = nkisim.run(kernel, x, nkisim.per_rank(work), ranks=RANKS, target="trn2", timing=True)
    latency, outputs = result.latency_us, [np.array(o) for o in result.outputs]
    for array in work:
        array[:] = 0
    result.write(html=tmp_path / "all.html", session=tmp_path / "k.{rank}.npz")
    ranks = world.read([tmp_path / f"k.{r}.npz" for r in range(RANKS)])
    assert ranks.latency_us() == pytest.approx(latency)
    text = (tmp_path / "all.html").read_text()
    assert "<title>kernel" in text and all(f'"rank": {r},' in text or f'"rank":{r},' in text for r in range(RANKS))
    result.write(html=tmp_path / "one.{rank}.html")
    assert all("Roofline" in (tmp_path / f"one.{r}.html").read_text() for r in range(RANKS))
    assert result.latency_us == latency and all(np.array_equal(a, b) for a, b in zip(result.outputs, outputs))
    with pytest.raises(nkisim.Error, match="a name with {rank} in it"):
        result.write(session=tmp_path / "k.npz")
    with pytest.raises(nkisim.Error, match="one of perfetto"):
        result.write(pdf=tmp_path / "k.pdf")
