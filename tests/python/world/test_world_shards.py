"""Tests ranks simulated in several processes: they leave the same bytes, end at the same
femtosecond and fail with the same words as in one process.
"""

import json
import multiprocessing
import os
import pathlib
import re
import signal
import types
import warnings

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from nkisim.run import shard, shards, world

pytestmark = [pytest.mark.process, pytest.mark.apart]
ROWS, COLUMNS = 64, 256


def hbm(rows=ROWS, columns=COLUMNS, dtype=nl.float32):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.shared_hbm)


def sbuf():
    return nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)


class Skewed:
    """A kernel whose ranks do unlike amounts of work before, during and after their collectives, in groups
    that differ from step to step; and what NumPy makes of it."""

    def __init__(self, seed, permutes):
        rng = np.random.default_rng(seed)
        self.ranks, self.lnc = int(rng.choice([4, 6, 8])), int(rng.choice([1, 2]))
        kinds = ["reduce", "tiles", *(["permute", "ring", "alone"] if permutes else [])]
        self.steps = []
        for _ in range(int(rng.integers(3, 7))):
            order = [int(r) for r in rng.permutation(self.ranks)]
            size = int(rng.choice([2, self.ranks]))
            groups = [order[i:i + size] for i in range(0, self.ranks, size)]
            self.steps.append((str(rng.choice(kinds)), groups, order))
        # The work of each rank before and during each step.
        self.work = [[tuple(int(n) for n in rng.integers(0, 20, 2) * rng.choice([0, 1, 1, 6]))
                      for _ in self.steps] for _ in range(self.ranks)]
        self.inputs = [rng.integers(-4, 5, (ROWS, COLUMNS)).astype(np.float32)
                       for _ in range(self.ranks)]

    def kernel(self, x, work):
        first = self.lnc == 1 or nl.program_id(0) == 0
        data, other = hbm(), sbuf()
        nisa.memset(dst=other, value=0.0)

        def meet(tensor):
            if self.lnc == 2:
                nisa.core_barrier(tensor, (0, 1))

        def move(dst, src, factor):
            if first:
                tile = nl.load(src)
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
                nisa.dma_copy(dst=dst, src=tile)

        move(data, x, 1.0)
        for (kind, groups, order), (before, during) in zip(self.steps, work):
            for _ in range(before):
                nisa.tensor_scalar(dst=other, data=other, op0=nl.add, operand0=1.0)
            fresh, src = hbm(), hbm()
            move(src, data, 0.5)
            meet(src)
            group = ncc.ReplicaGroup(groups)
            if kind == "reduce":
                ncc.all_reduce([src], [fresh], group, nl.add)
            elif kind == "permute":
                ncc.collective_permute([src], [fresh], list(zip(order, order[1:] + order[:1])))
            elif kind == "ring":
                ncc.collective_permute_implicit([[src]], [[fresh]], group)
            elif kind == "alone":
                ncc.all_reduce([src], [fresh], ncc.ReplicaGroup([[r] for r in order]), nl.add)
            else:
                tile, total = sbuf(), sbuf()
                nisa.dma_copy(dst=tile, src=src)
                ncc.all_reduce([tile], [total], group, nl.maximum)
                if first:
                    nisa.dma_copy(dst=fresh, src=total)
            for _ in range(during):
                nisa.tensor_scalar(dst=other, data=other, op0=nl.add, operand0=1.0)
                nisa.dma_copy(dst=sbuf(), src=x)
            meet(fresh)
            data = fresh
        out, count = hbm(), hbm()
        move(out, data, 1.0)
        if first:
            nisa.dma_copy(dst=count, src=other)
        return out, count

    def expected(self):
        data = [x.copy() for x in self.inputs]
        for kind, groups, order in self.steps:
            src = [d * np.float32(0.5) for d in data]
            for group in groups:
                for i, rank in enumerate(group):
                    data[rank] = {"reduce": lambda g=group: np.sum([src[r] for r in g], axis=0),
                                  "tiles": lambda g=group: np.max([src[r] for r in g], axis=0),
                                  "permute": lambda r=rank: src[order[order.index(r) - 1]],
                                  "ring": lambda g=group, i=i: src[g[i - 1]],
                                  "alone": lambda r=rank: src[r]}[kind]()
        return data


def assert_same(one, several):
    """Every rank's bytes, times and counts."""
    assert one.timed_as == several.timed_as and one.values_of == several.values_of
    for a, b in zip(one, several):
        assert (a.latency_ns, a.executed, a.summary) == (b.latency_ns, b.executed, b.summary)
        assert a.summary_text == b.summary_text and a.confidence == b.confidence
        for x, y in zip(np.atleast_1d(a.outputs) if not isinstance(a.outputs, tuple) else a.outputs,
                        np.atleast_1d(b.outputs) if not isinstance(b.outputs, tuple) else b.outputs):
            assert x.tobytes() == y.tobytes()


@pytest.mark.filterwarnings("ignore:.*its result is lost")
@pytest.mark.parametrize("permutes", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_skewed_ranks(seed, permutes):
    drawn = Skewed(seed, permutes)
    options = {"ranks": drawn.ranks, "lnc": drawn.lnc, "any_world": True, "target": "trn2"}
    arguments = nkisim.per_rank(drawn.inputs), nkisim.per_rank(drawn.work)
    one, two, three = (nkisim.run(drawn.kernel, *arguments, **options, processes=n) for n in (None, 2, 3))
    for rank, expected in enumerate(drawn.expected()):
        assert one[rank].outputs[0].tobytes() == expected.tobytes()
    assert_same(one, two)
    assert_same(one, three)
    time = nkisim.run(drawn.kernel, *arguments, **options, processes=2, timing="only")
    assert [r.latency_ns for r in time] == [r.latency_ns for r in one]
    values = nkisim.run(drawn.kernel, *arguments, **options, processes=2, timing=False)
    for a, b in zip(one, values):
        assert a.outputs[0].tobytes() == b.outputs[0].tobytes()


def reduced(x, work=0):
    src, dst, out, tile = hbm(), hbm(), hbm(), sbuf()
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(work):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=src, src=tile)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out


X = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
SKEW = nkisim.per_rank([0, 5, 10, 15])


def counted(x, metadata):
    src, dst, words, out = hbm(), hbm(), hbm(3, 4, nl.uint32), hbm()
    seen = hbm(3, 4, nl.uint32)
    nisa.dma_copy(dst=src, src=x)
    nisa.dma_copy(dst=dst, src=x)
    nisa.dma_copy(dst=words, src=metadata)
    ncc.all_to_all_v([src.reshape((ROWS * COLUMNS,))], [dst.reshape((ROWS * COLUMNS,))],
                     ncc.ReplicaGroup([[0, 1, 2, 3]]), words)
    nisa.dma_copy(dst=out, src=dst)
    nisa.dma_copy(dst=seen, src=words)
    return out, seen


@pytest.mark.filterwarnings("ignore:.*its result is lost")
def test_variable_lengths_of_other_processes():
    rng = np.random.default_rng(0)
    words = [np.concatenate([rng.integers(0, 4000, (1, 4)), rng.integers(0, 90, (1, 4)),
                             np.zeros((1, 4))]).astype(np.uint32) for _ in range(4)]
    x = [X + r for r in range(4)]
    one, two = (nkisim.run(counted, nkisim.per_rank(x), nkisim.per_rank(words), ranks=4, processes=n,
                           any_world=True) for n in (1, 2))
    assert_same(one, two)
    assert [r.outputs[1][2].tolist() for r in two] == [[int(w[0, r]) for w in words] for r in range(4)]


def message_of(kernel, *args, **options):
    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, *args, any_world=True, **options)
    return str(caught.value)


def same_message(kernel, *args, **options):
    one, two = (message_of(kernel, *args, **options, processes=n) for n in (1, 2))
    assert one == two
    return one


@pytest.mark.parametrize("timing", [False, True])
def test_errors_are_those_of_one_process(timing):
    def unequal(x, which):
        src, dst = hbm(), hbm()
        nisa.dma_copy(dst=src, src=x)
        group = ncc.ReplicaGroup([[0, 1, 2, 3]])
        if which:
            ncc.all_reduce([src], [dst], group, nl.maximum)
        else:
            ncc.all_reduce([src], [dst], group, nl.add)
        return dst

    def crossed(x, which):
        groups = [[[0, 1, 2], [0, 3]], [[0, 1, 2]], [[2, 3], [0, 1, 2]], [[0, 3], [2, 3]]][which]
        for group in groups:
            src, dst = hbm(), hbm()
            nisa.dma_copy(dst=src, src=x)
            ncc.all_reduce([src], [dst], ncc.ReplicaGroup([group]), nl.add)
        return dst

    def undefined(x, which):
        src, dst, out = hbm(), hbm(), hbm()
        nisa.dma_copy(dst=src[0:ROWS // 2] if which else src, src=x[0:ROWS // 2] if which else x)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    which = nkisim.per_rank([0, 0, 1, 1])
    options = {"ranks": 4, "timing": timing}
    assert "rank 0 calls all_reduce" in same_message(unequal, X, which, **options)
    assert "deadlock: rank" in same_message(crossed, X, nkisim.per_rank(range(4)), **options)
    assert "never written" in same_message(undefined, X, which, **options)
    found = []
    for n in (1, 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nkisim.run(undefined, X, which, **options, any_world=True, processes=n,
                       options=nkisim.Options(undefined="warn", any_world=True, timing=timing))
        found.append(sorted(str(w.message) for w in caught))
    assert found[0] == found[1] and len(found[0]) == 4


@pytest.mark.parametrize("timing", [False, True])
def test_the_first_error_of_all_ranks_is_given(timing):
    def kernel(x, index, work):
        tile = sbuf()
        for _ in range(work):
            nisa.tensor_scalar(dst=tile, data=nl.load(x), op0=nl.add, operand0=1.0)
        at = nl.load(index)
        out = hbm(1)
        nisa.dma_copy(dst=out, src=x.ap([[COLUMNS, 1], [1, COLUMNS]], scalar_offset=at, indirect_dim=0))
        src, dst = hbm(), hbm()
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)
        return out

    # Rank 2 fails first in time, then rank 3; then rank 2, while rank 3 already waits for the others.
    for bad, work, first in (((1, 2, 3), [5, 5, 0, 9], 2), ((1, 2, 3), [0, 9, 9, 3], 3),
                             ((1, 2), [40, 30, 15, 0], 2)):
        index = [np.array([[ROWS + r if r in bad else 0]], np.int32) for r in range(4)]
        text = same_message(kernel, X, nkisim.per_rank(index), nkisim.per_rank(work), ranks=4, timing=timing)
        assert f"at bytes {4 * COLUMNS * (ROWS + (first if timing else 1))}.." in text


def test_ranks_of_one_stack_stay_together():
    assert shards.owners(8, 3, 2) == [0, 0, 0, 0, 1, 1, 2, 2]
    assert shards.owners(4, 9, 2) == [0, 0, 1, 1]
    assert shards.owners(4, 2, 8) == [0] * 4
    assert shards.owners(7, 3, 1) == [0, 0, 0, 1, 1, 2, 2]


def test_usage():
    for options, text in (({"processes": 0}, "processes is 0; at least 1"),
                          ({"client": 3}, "client is 3; a dask.distributed.Client"),
                          ({"processes": 2, "options": nkisim.Options(keep_partial=True)}, "keep_partial")):
        with pytest.raises(nkisim.Error, match=text):
            nkisim.run(reduced, X, ranks=4, **options)
    with pytest.raises(nkisim.Error, match="ranks= is required"):
        nkisim.run(reduced, X, processes=2)


def test_save_and_reports(tmp_path):
    def run(folder, processes):
        folder.mkdir()
        options = nkisim.Options(target="trn2", files={
            key: folder / f"{key}.{{rank}}" for key in ("accounting_json", "perfetto", "chrome")})
        result = nkisim.run(reduced, X, SKEW, ranks=4, processes=processes, options=options)
        return result, {p.name: p.read_bytes() for p in folder.iterdir()}

    (one, files), (two, same) = run(tmp_path / "one", 1), run(tmp_path / "two", 2)
    assert_same(one, two)
    assert len(files) == 12 and files == same
    assert one.report() == two.report()
    alike = [nkisim.run(reduced, X, ranks=4, processes=n) for n in (1, 2)]
    for number, result in enumerate(alike):
        result.save(tmp_path / f"k{number}.nisa")
    kept = [np.load(tmp_path / f"k{n}.expected.3.npz") for n in range(2)]
    assert {k: v.tobytes() for k, v in kept[0].items()} == {k: v.tobytes() for k, v in kept[1].items()}


@pytest.mark.parametrize("processes", [1, 2])
def test_ranks_that_one_stands_for_have_their_files(tmp_path, processes):
    """A folded world's files, as commands write them: kernels run in Python left those of others out."""
    def run(folder, **how):
        folder.mkdir()
        options = nkisim.Options(target="trn2", files={
            key: folder / f"{key}.{{rank}}"
            for key in ("accounting_json", "perfetto", "chrome", "vcd", "session")}, **how)
        result = nkisim.run(reduced, X, ranks=4, processes=processes, options=options)
        return result, {p.name: p.read_bytes() for p in folder.iterdir()}

    (folded, files), (each, same) = run(tmp_path / "folded"), run(tmp_path / "each", fold=False)
    assert folded.timed_as != [0, 1, 2, 3] == each.timed_as
    assert len(files) == 20 and set(files) == set(same)

    def events(content):  # CC-cores have numbers of the rank's own in their names
        return [e for e in json.loads(content)["traceEvents"] if e["ph"] != "M"]

    for rank in range(4):
        assert events(files[f"chrome.{rank}"]) == events(same[f"chrome.{rank}"])
        assert files[f"accounting_json.{rank}"] == same[f"accounting_json.{rank}"]
        assert f"$scope module rank{rank} $end".encode() in files[f"vcd.{rank}"]


def test_prints_come_through(capsys):
    def kernel(x):
        tile = nl.load(x[0:1, 0:2])
        nl.device_print("rank's tile", tile)
        return reduced(x)

    nkisim.run(kernel, nkisim.per_rank([X + r for r in range(4)]), ranks=4, processes=2, timing=False)
    lines = capsys.readouterr().out
    assert [f"rank {r}: " in lines for r in range(4)] == [True] * 4


def test_a_killed_process_ends_the_run(monkeypatch):
    send = shards.Run._send

    def kill(self, shard, message):
        send(self, shard, message)
        if isinstance(message, dict) and message["shard"] == 1:
            os.kill(int(re.search(r"\d+", shard.name)[0]), signal.SIGKILL)

    monkeypatch.setattr(shards.Run, "_send", kill)
    with pytest.raises(nkisim.Error, match=r"process \d+ ended by signal 9 before its ranks did"):
        nkisim.run(reduced, X, SKEW, ranks=4, processes=2)
    monkeypatch.undo()
    assert nkisim.run(reduced, X, SKEW, ranks=4, processes=2).latency_ns > 0


@pytest.mark.parametrize("dead", [0, 1])
def test_a_process_that_dies_on_the_way_is_named(monkeypatch, dead):
    def kernel(x):
        tile = nl.load(x[0:1, 0:2])
        nl.device_print("here", tile)
        return reduced(reduced(x))

    names, connect = [], shards.LocalShards.connect

    def noting(self):
        names.extend(shard.name for shard in self.shards)
        connect(self)

    def kill(self, rank, line):  # at the first word from there, while the other waits for it
        if rank // 2 == dead:
            os.kill(int(names[dead].split()[1]), signal.SIGKILL)

    monkeypatch.setattr(shards.LocalShards, "connect", noting)
    monkeypatch.setattr(world._World, "_print", kill)
    with pytest.raises(nkisim.Error, match="ended by signal 9 before its ranks did") as caught:
        nkisim.run(kernel, nkisim.per_rank([X + r for r in range(4)]), ranks=4, processes=2)
    assert names[dead] in str(caught.value)


def test_dask_workers(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    options = nkisim.Options(target="trn2", files={"chrome": tmp_path / "trace.{rank}.json"})
    one = nkisim.run(reduced, X, SKEW, ranks=4, target="trn2")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0",
                                  worker_dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as client:
            two = nkisim.run(reduced, X, SKEW, ranks=4, options=options, client=client)
            assert_same(one, two)
            assert "traceEvents" in pathlib.Path(tmp_path / "trace.3.json").read_text(encoding="utf-8")
            with monkeypatch.context() as patch:
                patch.setattr(shards, "build", lambda: "another")
                with pytest.raises(nkisim.Error, match="has another build of nkisim"):
                    nkisim.run(reduced, X, SKEW, ranks=4, client=client)
            with pytest.raises(nkisim.Error, match="3 processes; .* has 2 workers"):
                nkisim.run(reduced, X, ranks=8, processes=3, client=client, any_world=True)


def test_dask_workers_need_processes_of_their_own():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False,
                                  dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            with pytest.raises(nkisim.Error, match="two Dask workers are in process"):
                nkisim.run(reduced, X, SKEW, ranks=4, client=client)


@pytest.mark.parametrize("first, said", [
    (("failed", {"message": "what was wrong", "rule": "internal_error", "code": "internal"}), "what was wrong"),
    (("done", None), "some processes of the run have ended and others have not")])
def test_processes_that_wait_for_one_that_has_ended_say_why(first, said):
    """One waits in a collective for another, which has failed before it came there."""
    pairs = [multiprocessing.Pipe() for _ in range(2)]
    for (_, there), message in zip(pairs, (first, ("meet", "kind", [None, None]))):
        there.send(message)
    fakes = [types.SimpleNamespace(connection=here, name=f"process {n}", ended=lambda: "")
             for n, (here, _) in enumerate(pairs)]
    with pytest.raises(nkisim.Error, match=said):
        shards.Run.__new__(shards.Run)._pass_on(fakes, print)


def test_a_process_leaves_ctrl_c_to_its_caller(monkeypatch):
    served = []
    here, there = multiprocessing.Pipe()
    monkeypatch.setattr(shard, "serve", lambda connection: served.append(
        (signal.getsignal(signal.SIGINT), connection.fileno())))
    monkeypatch.setattr("sys.argv", ["shard", str(os.dup(there.fileno()))])
    before = signal.getsignal(signal.SIGINT)
    try:
        shard.main()
    finally:
        signal.signal(signal.SIGINT, before)
    [(handler, descriptor)] = served
    assert handler == signal.SIG_IGN and descriptor != here.fileno()
