"""Tests the waveforms (VCD) of a run against its profile file, with a parser that is not ours
(PyPI: pyvcd).
"""

import collections
import gzip
import itertools

import numpy as np
import pytest

from running import ROOT, cli
from sessions import session_arrays

vcd = pytest.importorskip("vcd.reader")
pytestmark = pytest.mark.process

TRACES = ["flash_attention", "matmul_psum", "semaphores"]
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


def signals(content):
    """{"rank0.nc0.tensor.busy": [(time, value), ...]} and the time of the end."""
    names, changes, scope, now = {}, collections.defaultdict(list), [], 0
    for token in vcd.tokenize(content):
        if token.kind is vcd.TokenKind.SCOPE:
            scope.append(token.scope.ident)
        elif token.kind is vcd.TokenKind.UPSCOPE:
            scope.pop()
        elif token.kind is vcd.TokenKind.TIMESCALE:
            assert (int(token.timescale.magnitude), token.timescale.unit.value) == (1, "fs")
        elif token.kind is vcd.TokenKind.VAR:
            name = ".".join([*scope, token.var.reference])
            assert name not in names.values() and token.var.id_code not in names
            names[token.var.id_code] = name
        elif token.kind is vcd.TokenKind.CHANGE_TIME:
            assert token.time_change >= now
            now = token.time_change
        elif token.kind in (vcd.TokenKind.CHANGE_SCALAR, vcd.TokenKind.CHANGE_VECTOR, vcd.TokenKind.CHANGE_STRING):
            change = token.data
            value = change.value if token.kind is not vcd.TokenKind.CHANGE_SCALAR else int(change.value)
            changes[names[change.id_code]].append((now, value))
    assert not scope and all(c[0][0] == 0 for c in changes.values()) and len(changes) == len(names)
    return dict(changes), now


def intervals(changes, end, idle=(0, "-")):
    """[(from, to, value)] of every value but idle."""
    return [(a, b, v) for (a, v), (b, _) in itertools.pairwise([*changes, (end, None)]) if v not in idle and b > a]


def union(spans):
    joined = []
    for a, b in sorted(s for s in spans if s[1] > s[0]):
        if joined and a <= joined[-1][1]:
            joined[-1][1] = max(b, joined[-1][1])
        else:
            joined.append([a, b])
    return joined


def at(changes, time):
    return [v for t, v in changes if t <= time][-1]


@pytest.fixture(scope="module", params=TRACES)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("waves")
    cli("run", ROOT / "traces" / f"{request.param}.jsonl", "--quiet", "--vcd", folder / "k.vcd", "--session",
        folder / "s.npz")
    session = session_arrays(folder / "s.npz")
    ends = np.concatenate([[0], session["texts.ends"]])
    text = session["texts.bytes"].tobytes()
    words = [text[a:b].decode() for a, b in itertools.pairwise(ends)]
    with open(folder / "k.vcd", "rb") as file:
        return *signals(file), session, words


def rows(session, table):
    columns = {k.split(".")[1]: v for k, v in session.items() if k.startswith(table + ".")}
    return [dict(zip(columns, values)) for values in zip(*(v.tolist() for v in columns.values()))]


def test_engines_are_busy_when_their_parts_run(run):
    waves, end, session, words = run
    parts, insts = rows(session, "parts"), rows(session, "insts")
    for number, engine in enumerate(ENGINES):
        own = [p for p in parts if p["engine"] == number]
        busy = intervals(waves[f"rank0.nc0.{engine}.busy"], end)
        assert [[a, b] for a, b, _ in busy] == union((p["start"], p["end"]) for p in own)
        for p in own:
            if p["end"] > p["start"] and sum(q["start"] == p["start"] for q in own) == 1:
                name = f"rank0.nc0.{engine}."
                assert at(waves[name + "instruction"], p["start"]) == words[insts[p["inst"]]["op"]]
                assert at(waves[name + "opcode"], p["start"]) == words[p["opcode"]]
                line = insts[p["inst"]]
                assert at(waves[name + "line"], p["start"]) == f"{words[line['file']].split('/')[-1]}:{line['line']}"
                assert at(waves[name + "sequence"], p["start"]) == p["sequence"]
                under_way = sum(q["start"] <= p["start"] < q["end"] for q in own)
                assert at(waves[name + "under_way"], p["start"]) == under_way
    assert sum(len(waves[f"rank0.nc0.{e}.busy"]) for e in ENGINES) > 20


def test_instructions_are_queued_until_they_begin(run):
    waves, end, session, _ = run
    for number, engine in enumerate(ENGINES):
        queued = waves[f"rank0.nc0.{engine}.queued"]
        own = [p for p in rows(session, "parts") if p["engine"] == number]
        begun = [min(p["start"] for p in own if p["sequence"] == s) for s in {p["sequence"] for p in own}]
        assert at(queued, end) == 0
        for time, value in queued:
            assert 0 <= value <= sum(b > time for b in begun) or time == 0
        for (_, before), (time, value) in itertools.pairwise(dict(queued).items()):
            assert value > before or time in begun, (engine, time)


def test_a_walk_to_another_engine_fills_a_queue(tmp_path):
    """GpSimdE's instruction is behind three of VectorE, which the walk puts into their queue at once."""
    lines = ['{"nisa": 1, "target": "trn2", "name": "queued"}']
    lines += [f'{{"tensor": {{"name": "a{i}", "space": "sbuf", "shape": [128, 512], "dtype": "float32", '
              f'"address": {2048 * i}}}}}' for i in range(4)]
    lines += [f'{{"i": "memset", "dst": "a{i}", "value": 1.0, "engine": "{"gpsimd" if i == 3 else "vector"}"}}'
              for i in range(4)]
    trace = tmp_path / "queued.jsonl"
    trace.write_text("\n".join(lines) + "\n")
    cli("run", trace, "--timing-only", "--quiet", "--vcd", tmp_path / "k.vcd")
    waves, end = signals(open(tmp_path / "k.vcd", "rb"))
    starts = [a for a, _, _ in intervals(waves["rank0.nc0.vector.busy"], end)]
    assert list(dict(waves["rank0.nc0.vector.queued"]).values()) == [3, 2, 1, 0]
    assert list(dict(waves["rank0.nc0.vector.queued"]))[1] == starts[0] == 40_000_000  # fs: VectorE's start
    assert dict(waves["rank0.nc0.gpsimd.queued"]) == {0: 1, 1_290_000_000: 0}


def test_waits_name_the_producer_until_it_ends(run):
    waves, end, session, words = run
    queues = {q["index"]: words[q["name"]] for q in rows(session, "queues")}
    seen = 0
    for number, engine in enumerate(ENGINES):
        waits = intervals(waves[f"rank0.nc0.{engine}.waits_for"], end)
        for a, b, who in waits:
            who, _, semaphore = who.partition(":S")
            if who not in [q if i > 4 else q.lower() for i, q in queues.items()]:
                assert who in ("semaphore", "data_path") or who.startswith("port:")
                continue
            ended = [p for p in rows(session, "parts") if p["engine"] == number and p["producer"] >= 0 and
                     queues[p["producer"]].lower() == who.lower() and
                     (p["producer_end"] == b or p["start"] == b)]
            assert ended and all(p["start"] >= b for p in ended), (a, b, who)
            assert not semaphore or int(semaphore) in [p["semaphore"] for p in ended]
            seen += 1
    assert seen > 3


def test_queues_and_dma_engines(run):
    waves, end, session, words = run
    transfers, lanes = rows(session, "transfers"), rows(session, "lanes")
    for queue in {t["queue"] for t in transfers}:
        name = [words[q["name"]] for q in rows(session, "queues") if q["index"] == queue][0]
        own = [t for t in transfers if t["queue"] == queue]
        for what, weight in (("transfers", lambda t: 1), ("bytes", lambda t: t["bytes"])):
            changes = waves[f"rank0.nc0.dma.{name}.{what}"]
            for time, value in changes:
                assert value == sum(weight(t) for t in own if t["trigger_end"] <= time < t["visible"])
            assert len(changes) > len(own)
        moving = intervals(waves[f"rank0.nc0.dma.{name}.moving"], end)
        assert [[a, b] for a, b, _ in moving] == union((t["first_packet"], t["last_packet"]) for t in own)
    for engine in range(16):
        busy = intervals(waves[f"rank0.nc0.dma.engine{engine}.busy"], end)
        assert [[a, b] for a, b, _ in busy] == union((x["start"], x["end"]) for x in lanes if x["engine"] == engine)


def test_bytes_of_hbm_add_up(run):
    waves, end, session, _ = run
    transfers = rows(session, "transfers")
    for name, side in (("read", "src"), ("written", "dst")):
        changes = waves[f"rank0.hbm.{name}_bytes_per_us"]
        total = 0
        for a, b, value in intervals(changes, -(-end // 10**9) * 10**9):
            assert a % 10**9 == 0 == b % 10**9
            total += value * (b - a) // 10**9
        assert total == sum(t["bytes"] for t in transfers if t[side] == 0)


def test_semaphores(run):
    waves, _, session, _ = run
    explicit = collections.defaultdict(dict)
    for row in rows(session, "semaphores"):
        explicit[row["semaphore"]][row["time"]] = row["value"]
    for number, values in explicit.items():
        wanted = [v for v, _ in itertools.groupby([0, *values.values()])]
        assert [v for _, v in waves[f"rank0.nc0.semaphores.S{number}"]] == wanted
    if explicit:
        return
    # Without any the simulator counts what each queue has completed.
    queues = {words_of(run, q["name"]): q["index"] for q in rows(session, "queues")}
    transfers = rows(session, "transfers")
    for name, index in queues.items():
        own = [t for t in transfers if t["queue"] == index]
        if own:
            assert waves[f"rank0.nc0.semaphores.{name}"][-1][1] == len(own)
    computed = {p["sequence"] for p in rows(session, "parts") if p["engine"] == 0}
    assert waves["rank0.nc0.semaphores.tensor"][-1][1] == len(computed)


def words_of(run, number):
    return run[3][number]


def test_owners_of_psum(run):
    """A bank has an owner while a part of the tensor engine writes it: those of the parts that write PSUM."""
    waves, end, session, _ = run
    wanted = union((p["start"], p["end"]) for p in rows(session, "parts") if p["psum_read"] + p["psum_write"] > 0)
    owned = [span for bank in range(8) for span in intervals(waves[f"rank0.nc0.psum.bank{bank}.owner"], end)]
    assert union((a, b) for a, b, _ in owned) == wanted
    for bank in range(8):
        name = f"rank0.nc0.psum.bank{bank}."
        for a, _, owner in intervals(waves[name + "owner"], end):
            assert set(owner.split("+")) <= {*ENGINES, "dma"}
            assert at(waves[name + "tensor"], a) != "-"


def test_compressed_and_ranks(tmp_path):
    trace = ROOT / "traces" / "all_reduce.jsonl"
    trace = trace if trace.exists() else ROOT / "traces" / "softmax.jsonl"
    for words in ((), ("--no-fold",)):
        cli("run", trace, "--quiet", "--ranks", "2", "--vcd", tmp_path / "k{rank}.vcd.gz", *words)
        files = [gzip.decompress((tmp_path / f"k{r}.vcd.gz").read_bytes()) for r in range(2)]
        assert b"$scope module rank1 $end" in files[1]
        assert files[0].replace(b"module rank0", b"module rank1") == files[1]


def test_a_run_without_waveforms_is_the_same(tmp_path):
    """The file is of the run's end; nothing else changes."""
    times = [cli("run", ROOT / "traces" / "softmax.jsonl", "--json", *words).stdout
             for words in ((), ("--vcd", tmp_path / "k.vcd"))]
    assert times[0] == times[1]
