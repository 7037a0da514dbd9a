"""Stops random race-free programs of two cores and of two ranks (stop_at) at random instants. Their stored values are
those of an untimed run of exactly the instructions that were complete, and their times those of a run without stops.
"""

import json
import random

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from nkisim_work import Worker
from running import write_trace
from test_stop import Session

pytestmark = [pytest.mark.process, pytest.mark.slow]
ROWS, COLUMNS, TILES, PROGRAMS, STOPS = 16, 8, 3, 30, 5
X = np.random.default_rng(7).integers(-4, 5, (TILES, ROWS, COLUMNS)).astype(np.float32)
_MEETS = ("sendrecv", "core_barrier")


def tile():
    return nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)


def hbm(shape=(ROWS, COLUMNS)):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def drawn(seed, meet):
    """A kernel of work that is drawn, in which `meet(tile)` sometimes gives a tile that others had a part in."""
    def kernel(x):
        rng, me = random.Random(seed), nl.program_id(0) if meet is between_cores else 0
        out = hbm((2 if meet is between_cores else 1, 12, ROWS, COLUMNS))
        tiles = [tile() for _ in range(3)]
        for t in tiles:
            nisa.dma_copy(dst=t, src=x[rng.randrange(TILES)])
        for step in range(12):
            t, u = rng.sample(range(3), 2)
            op, often = rng.choice((nl.add, nl.subtract, nl.maximum)), rng.randrange(3)
            for _ in range(1 + often * me):  # cores come at different times
                fresh = tile()
                nisa.tensor_tensor(fresh, tiles[t], tiles[u], op)
            tiles[t] = fresh
            kind = rng.randrange(4)
            if kind == 0:
                tiles[u] = meet(tiles[t], me)
            elif kind == 1:
                nisa.activation(dst=tiles[u], op=nl.copy, data=tiles[t], bias=None, scale=0.5)
            nisa.dma_copy(dst=out[me, step], src=tiles[rng.randrange(3)])
        return out

    return kernel


def between_cores(t, me):
    got = tile()
    nisa.sendrecv(src=t, dst=got, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    return got


def between_ranks(t, _):
    mine, total, got = hbm(), hbm(), tile()
    nisa.dma_copy(dst=mine, src=t)
    ncc.all_reduce(srcs=[mine], dsts=[total], op=nl.add, replica_group=ncc.ReplicaGroup([[0, 1]]))
    nisa.dma_copy(dst=got, src=total)
    return got


def saved(folder, kernel, **how):
    """The compiled trace of a kernel, each line with its own place."""
    nkisim.run(kernel, X, target="trn2", **how).save(folder / "k.jsonl")
    lines = [json.loads(line) for line in (folder / "k.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("loc", None)
    return write_trace(folder / "k.jsonl", lines), lines


def with_partners(complete, lines):
    """The lines to run: a meeting that one core alone has completed needs the other's part."""
    kept = set(complete)
    for instruction in _MEETS:
        ours = [[n for n, line in enumerate(lines, 1) if line.get("i") == instruction and line.get("core", 0) == core]
                for core in range(2)]
        for pair in zip(*ours):
            kept.update(pair if kept.intersection(pair) else ())
    return kept


@pytest.fixture(scope="module")
def worker():
    with Worker() as started:
        yield started


def ok(said):
    assert "error" not in said, said
    return said


@pytest.mark.parametrize("meet", [between_cores, between_ranks])
def test_drawn_programs_stop_as_the_complete_instructions_leave_them(meet, tmp_path, worker):
    ranks = 2 if meet is between_ranks else 1
    how = {"ranks": 2} if ranks == 2 else {"grid": 2}
    mark = ".{rank}" if ranks == 2 else ""
    met = stored = 0
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        trace, lines = saved(tmp_path, drawn(seed, meet), **how)
        (output,) = (line["tensor"]["name"] for line in lines if line.get("tensor", {}).get("role") == "output")
        job = {"trace": str(trace), "fold": False, "roots": [str(tmp_path)], **({"ranks": 2} if ranks == 2 else {})}
        whole = ok(worker.run({**job, "session": str(tmp_path / f"s{mark}.npz")}))
        sessions = [Session(tmp_path / f"s{mark.replace('{rank}', str(r))}.npz") for r in range(ranks)]
        ends = sorted({end for session in sessions for _, _, end in session.steps.values()})
        for at in (rng.choice(ends) - rng.randrange(2) for _ in range(STOPS)):
            done = ok(worker.run({**job, "stop_at": f"{at / 1000}ps", "dump": [output],
                                  "dump_to": str(tmp_path / f"v{mark}.npz")}))
            assert done["latency_us"] == whole["latency_us"] and done["totals"] == whole["totals"]
            for r, session in enumerate(sessions):
                complete = session.complete(at)
                assert done["stop"]["ranks"][r]["complete"] == len(complete)
                kept = with_partners(complete, lines) if ranks == 1 else complete
                short = write_trace(tmp_path / "short.jsonl", [
                    line for n, line in enumerate(lines, 1) if "i" not in line or n in kept])
                ok(worker.run({**job, "trace": str(short), "want": "values", "allow_unwritten": True,
                               "outputs": str(tmp_path / f"o{mark}.npz")}))
                name = mark.replace("{rank}", str(r))
                with np.load(tmp_path / f"v{name}.npz") as found, np.load(tmp_path / f"o{name}.npz") as wanted:
                    valid = found.get(f"{output}.valid", np.ones(wanted[output].shape, bool))
                    np.testing.assert_array_equal(found[output][valid], wanted[output][valid])
                    assert not wanted[output][~valid].any()
                    stored += 0 < valid.sum() < valid.size
                met += any(lines[n - 1].get("i") in (*_MEETS, "all_reduce") for n in complete)
    assert stored > PROGRAMS and met > PROGRAMS  # most stops were between stores, many after a meeting
