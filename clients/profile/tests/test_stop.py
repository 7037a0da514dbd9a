"""Tests the state of a run at one instant (stop_at). Its values are those of an untimed run of
exactly the instructions that were complete; NumPy or a program without the others computes them.
"""

import concurrent.futures
import itertools
import json

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from running import ROOT, cli, write_trace
from sessions import session_arrays

pytestmark = pytest.mark.process
ROWS, COLUMNS, TILES = 128, 64, 6


def tile(columns=COLUMNS):
    return nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)


def chain(x):
    """o[i] = 2 * x[i] + 1, a tile after the other."""
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        t, u, v = tile(), tile(), tile()
        nisa.dma_copy(dst=t, src=x[i])
        nisa.tensor_scalar(dst=u, data=t, op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=v, op=nl.copy, data=u, bias=None, scale=1.0)
        nisa.tensor_scalar(dst=v, data=v, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=o[i], src=v)
    return o


X = np.random.default_rng(1).standard_normal((TILES, ROWS, COLUMNS)).astype(np.float32)


class Session:
    """The entries of a session for each instruction of a trace: by trace line, when each execution was complete."""

    def __init__(self, path):
        self.file = session_arrays(path)
        self.transfers = {(int(c), int(s)): int(v) for c, s, v in zip(
            self.file["transfers.core"], self.file["transfers.sequence"], self.file["transfers.visible"])}
        lines = self.file["insts.trace_line"]
        collectives = {(int(c), int(s)): int(v) for c, s, v in zip(
            self.file["collectives.core"], self.file["collectives.sequence"], self.file["collectives.end"])}
        self.steps = {}  # (core, sequence): [trace line, start, end]
        for i, core, sequence, start, end in zip(*(self.file[f"parts.{k}"].tolist() for k in (
                "inst", "core", "sequence", "start", "end"))):
            step = self.steps.setdefault((core, sequence), [int(lines[i]), start, 0])
            step[1], step[2] = min(step[1], start), max(step[2], end)
        for key, visible in itertools.chain(self.transfers.items(), collectives.items()):
            self.steps[key][2] = visible

    def complete(self, at):
        return {line for line, _, end in self.steps.values() if end <= at}

    def under_way(self, at):
        return sorted(line for line, start, end in self.steps.values() if start <= at < end)

    def instants(self, count):
        """Ends of instructions, where it matters that the instant counts, and moments between."""
        ends = sorted({end for _, _, end in self.steps.values()})
        picked = ends[::max(1, len(ends) // count)]
        return sorted({*picked, *(e - 1 for e in picked), *((a + b) // 2 for a, b in itertools.pairwise(ends))})


def test_values_are_those_of_complete_instructions(tmp_path):
    result = nkisim.run(chain, X, target="trn2")
    result.write(session=tmp_path / "s.npz")
    file = session_arrays(tmp_path / "s.npz")
    visible = sorted(zip(file["transfers.sequence"].tolist(), file["transfers.visible"].tolist(),
                         file["transfers.dst"].tolist()))
    stored = [when for _, when, space in visible if space == 0]
    assert len(stored) == TILES
    for at in sorted({*stored, *(s - 1 for s in stored), 0, 10**10}):
        run = nkisim.run(chain, X, target="trn2", stop_at=f"{at / 1000}ps")
        for i, when in enumerate(stored):
            assert run.stop.valid["o"][i].all() == (when <= at) == run.stop.valid["o"][i].any()
            if when <= at:
                np.testing.assert_array_equal(run.stop.values["o"][i], 2 * X[i] + 1)
        np.testing.assert_array_equal(run.stop.values["x"], X)
        # The run went on, at the same times.
        assert run.latency_ns == result.latency_ns and run.summary == result.summary
        np.testing.assert_array_equal(run.outputs, 2 * X + 1)


def check(folder, trace, outputs, ranks=1, count=12, **how):
    """Every instant of `trace`, which has no loops, against its lines that were complete, run without time."""
    many = ["--ranks", ranks] if ranks > 1 else []
    mark = ".{rank}" if ranks > 1 else ""
    times = json.loads(cli("run", trace, "--json", *many, "--session", folder / f"s{mark}.npz", "--no-fold").stdout)
    sessions = [Session(folder / (f"s.{r}.npz" if ranks > 1 else "s.npz")) for r in range(ranks)]
    lines = trace.read_text().splitlines()
    partial = 0
    for at in sessions[0].instants(count):
        done = json.loads(cli("run", trace, "--json", *many, "--stop-at", f"{at / 1000}ps", "--dump", ",".join(outputs),
                              "--dump-to", folder / f"v{mark}.npz").stdout)
        stop = done.pop("stop")
        assert done["latency_us"] == times["latency_us"] and done["totals"] == times["totals"]
        complete = [session.complete(at) for session in sessions]
        if any(c != complete[0] for c in complete):
            continue  # no one trace has what these ranks have done
        assert abs(stop["at_us"] * 1e9 - at) < 1
        kept = [line for n, line in enumerate(lines, 1) if not line.startswith('{"i"') or n in complete[0]]
        short = write_trace(folder / "short.jsonl", kept)
        cli("run", short, "--functional", "--allow-unwritten", "--quiet", *many, "--outputs",
            folder / f"o{mark}.npz")
        for r in range(ranks):
            assert stop["ranks"][r]["complete"] == len(complete[r])
            sources = sorted(int(w["source"].rsplit(":", 1)[1]) for w in stop["ranks"][r]["under_way"]) if not \
                how.get("kernel") else None
            assert sources is None or sources == sessions[r].under_way(at)
            name = f".{r}.npz" if ranks > 1 else ".npz"
            with np.load(folder / f"v{name}") as found, np.load(folder / f"o{name}") as wanted:
                for output in outputs:
                    valid = found.get(f"{output}.valid", np.ones(found[output].shape, bool))
                    np.testing.assert_array_equal(found[output][valid], wanted[output][valid])
                    assert not wanted[output][~valid].any()
                    partial += 0 < valid.sum() < valid.size
    return partial


def saved(folder, kernel, *args, **how):
    """The compiled trace of a kernel, with places in the trace instead of the kernel's."""
    result = nkisim.run(kernel, *args, target="trn2", **how)
    result.save(folder / "k.jsonl")
    lines = [json.loads(line) for line in (folder / "k.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("loc", None)
    return write_trace(folder / "k.jsonl", lines)


def test_one_core_equals_a_run_of_the_complete_instructions(tmp_path):
    assert check(tmp_path, saved(tmp_path, chain, X), ["o"]) > 3


def exchange_between_cores(x):
    """Each core exchanges tiles with the other, and through HBM behind a barrier."""
    me = nl.program_id(0)
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    mine, other, sums = tile(), tile(), tile()
    for _ in range(1 + 2 * me):
        nisa.dma_copy(dst=mine, src=x[me])
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    nisa.tensor_tensor(sums, mine, other, nl.add)
    nisa.dma_copy(dst=o[me], src=sums)
    if me == 0:
        nisa.dma_copy(dst=shared, src=sums)
    nisa.core_barrier(shared, (0, 1))
    back = tile()
    nisa.dma_copy(dst=back, src=shared)
    nisa.tensor_tensor(back, back, mine, nl.multiply)
    nisa.dma_copy(dst=p[me], src=back)
    return o, p


def test_two_cores_equal_a_run_of_the_complete_instructions(tmp_path):
    """Where one core has what the other sent and the other does not yet, no trace stands for both: those
    instants are compared with NumPy."""
    x = X[:2]
    trace = saved(tmp_path, exchange_between_cores, x, grid=2)
    cli("run", trace, "--quiet", "--session", tmp_path / "s.npz")
    session = Session(tmp_path / "s.npz")
    lines = trace.read_text().splitlines()
    meetings = [n for n, line in enumerate(lines, 1) if json.loads(line).get("i") in ("sendrecv", "core_barrier")]
    seen = set()
    for at in session.instants(40):
        done = json.loads(cli("run", trace, "--json", "--stop-at", f"{at / 1000}ps", "--dump", "o,p",
                              "--dump-to", tmp_path / "v.npz").stdout)
        complete = session.complete(at)
        assert done["stop"]["ranks"][0]["complete"] == len(complete)
        half = [json.loads(lines[n - 1])["i"] for n in meetings if n in complete]
        seen.add(tuple(half.count(i) % 2 for i in ("sendrecv", "core_barrier")))
        with np.load(tmp_path / "v.npz") as found:
            for name, wanted in (("o", np.stack([x[0] + x[1]] * 2)), ("p", (x[0] + x[1]) * x)):
                valid = found.get(f"{name}.valid", np.ones(x.shape, bool))
                np.testing.assert_array_equal(found[name][valid], wanted[valid])
                for core in range(2):
                    stores = [n for n, line in enumerate(lines, 1) if json.loads(line).get("i") == "dma_copy" and
                              str(json.loads(line)["dst"]).startswith(f"{name}[{core}")]
                    assert len(stores) == 1
                    assert valid[core].all() == (stores[0] in complete) == valid[core].any()
    assert (0, 0) in seen and (1, 0) in seen


def gathered(x):
    """Ranks sum their tiles, next to work of their own."""
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    t = tile()
    nisa.dma_copy(dst=t, src=x[0])
    nisa.dma_copy(dst=mine, src=t)
    ncc.all_reduce(srcs=[mine], dsts=[total], op=nl.add, replica_group=ncc.ReplicaGroup([[0, 1]]))
    for i in range(x.shape[0]):
        u = tile()
        nisa.dma_copy(dst=u, src=x[i])
        nisa.tensor_scalar(dst=u, data=u, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=p[i], src=u)
    s = tile()
    nisa.dma_copy(dst=s, src=total)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=o[i], src=s)
    return o, p


def test_two_ranks_equal_a_run_of_the_complete_instructions(tmp_path):
    result = nkisim.run(gathered, X[:3], target="trn2", ranks=2)
    np.testing.assert_array_equal(result[1].outputs[0], np.stack([2 * X[0]] * 3))
    trace = saved(tmp_path, gathered, X[:3], ranks=2)
    assert check(tmp_path, trace, ["o", "p"], ranks=2, count=20) > 3


def test_ranks_that_differ():
    """Rank 1 comes late: until then rank 0 waits in the collective, which is not completed."""
    def kernel(x, work):
        t = tile()
        for _ in range(work):
            nisa.dma_copy(dst=t, src=x[0])
        return gathered(x)

    xs = [X[:2], 10 * X[:2]]
    how = {"target": "trn2", "ranks": 2}
    whole = nkisim.run(kernel, nkisim.per_rank(xs), nkisim.per_rank([0, 9]), **how)
    spans, mixed = [r.latency_us for r in whole], 0
    for at in np.linspace(0, max(spans) + 3, 40):
        run = nkisim.run(kernel, nkisim.per_rank(xs), nkisim.per_rank([0, 9]), stop_at=f"{at:.3f}us", **how)
        assert [r.latency_ns for r in run] == [r.latency_ns for r in whole]
        for rank, r in enumerate(run):
            for name, wanted in (("o", np.stack([xs[0][0] + xs[1][0]] * 2)), ("p", 3 * xs[rank])):
                valid = r.stop.valid[name]
                np.testing.assert_array_equal(r.stop.values[name][valid], wanted[valid])
        early = run[0].stop
        waiting = [w for w in early.under_way if w["instruction"] == "all_reduce"]
        if waiting and early.valid["p"].any():
            mixed += 1
            assert not early.valid["o"].any() and not early.valid["total"].any()
    assert mixed and run[0].stop.valid["o"].all() and run[1].stop.valid["o"].all()


def test_a_collective_that_some_ranks_have_completed():
    """A rank takes what another sends, which itself has nothing yet."""
    def kernel(x, work):
        o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t, u = tile(), tile()
        for _ in range(1 + work):
            nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=mine, src=t)
        ncc.collective_permute(srcs=[mine], dsts=[got], source_target_pairs=[(0, 1), (1, 2), (2, 3), (3, 0)])
        nisa.dma_copy(dst=u, src=got)
        nisa.dma_copy(dst=o, src=u)
        return o

    xs = [(r + 1) * X[0] for r in range(4)]
    seen = set()
    for at in np.linspace(5, 30, 26):
        run = nkisim.run(kernel, nkisim.per_rank(xs), nkisim.per_rank([0, 9, 0, 0]), ranks=4, target="trn2",
                         stop_at=f"{at:.3f}us", dump=["got"])
        has = [bool(r.stop.valid["got"].all()) for r in run]
        assert has == [bool(r.stop.valid["got"].any()) for r in run]
        seen.add(sum(has))
        for rank, r in enumerate(run):
            ended = not [w for w in r.stop.under_way if w["instruction"] == "collective_permute"]
            assert not has[rank] or (ended and (r.stop.values["got"] == xs[rank - 1]).all())
    assert seen >= {0, 4} and seen & {1, 2, 3}


def test_tiles_that_another_has_overwritten_have_no_value(tmp_path):
    """Two tiles at one address: what the later one wrote is not the earlier one's value."""
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2"},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 4], "dtype": "float32", "role": "output"}},
        {"tensor": {"name": "a", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": 0}},
        {"tensor": {"name": "b", "space": "sbuf", "shape": [128, 2], "dtype": "float32", "address": 0}},
        {"i": "memset", "dst": "a", "value": 1.0, "engine": "vector"},
        {"i": "dma_copy", "dst": "o", "src": "a"},
        {"i": "memset", "dst": "b", "value": 2.0, "engine": "vector"},
        {"i": "dma_copy", "dst": "o[:, 0:2]", "src": "b"}])
    for line, a, b in ((5, 4, 0), (6, 4, 0), (7, 2, 2), (8, 2, 2)):
        stop = json.loads(cli("run", trace, "--json", "--stop-at", f"k.jsonl:{line}", "--dump", "a,b").stdout)["stop"]
        values = stop["ranks"][0]["values"]
        assert (values["a"]["valid"], values["b"]["valid"]) == (128 * a, 128 * b)
        assert values["a"]["values"][:4] == [None] * (4 - a) + [1.0] * a


def test_the_nth_execution_of_a_line(tmp_path):
    lines = chain.__code__.co_firstlineno
    multiply = lines + 6  # tensor_scalar with 2.0
    whole = nkisim.run(chain, X, target="trn2", compiler={"schedule": "program"})
    whole.write(session=tmp_path / "s.npz")
    file = session_arrays(tmp_path / "s.npz")
    of = np.flatnonzero(file["insts.line"] == multiply)
    ends = [end for i, end in zip(file["parts.inst"], file["parts.end"]) if i in of]
    assert len(ends) == TILES
    for n, end in enumerate(ends, 1):
        stop = nkisim.run(chain, X, target="trn2", compiler={"schedule": "program"},
                          stop_at=f"test_stop.py:{multiply}#{n}").stop
        assert round(stop.at_us * 1e9) == end
    with pytest.raises(nkisim.Error, match=rf"executed {TILES} times; at most #{TILES} is required"):
        nkisim.run(chain, X, target="trn2", compiler={"schedule": "program"}, stop_at=f"test_stop.py:{multiply}#7")


def counted(n, x):
    """Copies n tiles, in a loop of the sequencers whose bound is loaded."""
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = tile(1)
    bound = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=bound, src=n)
    nisa.memset(count, value=1.0)
    reg = nisa.register_alloc()
    nisa.register_load(reg, bound)
    for i in nl.dynamic_range(0, reg):
        t = tile()
        nisa.dma_copy(dst=t, src=x.ap([[COLUMNS, ROWS], [1, COLUMNS]], scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(dst=o.ap([[COLUMNS, ROWS], [1, COLUMNS]], scalar_offset=i, indirect_dim=0), src=t)
    return o


def test_loops_and_registers():
    """The walk ends where the run was."""
    n = np.array([[3]], np.int32)
    whole = nkisim.run(counted, n, X, target="trn2", options=nkisim.Options(target="trn2", undefined="warn"))
    seen = set()
    for at in np.linspace(0, whole.latency_us + 3, 30):
        options = nkisim.Options(target="trn2", undefined="warn", stop_at=f"{at:.3f}us")
        valid = nkisim.run(counted, n, X, options=options).stop.valid["o"]
        done = [bool(valid[i].all()) for i in range(TILES)]
        assert done == sorted(done, reverse=True) and sum(done) <= 3
        seen.add(sum(done))
    assert seen >= {0, 3}


def test_an_error_has_the_stop():
    """The seventh of six tiles: what was complete before is there."""
    options = nkisim.Options(target="trn2", undefined="warn", stop_at="1s")
    with pytest.raises(nkisim.Error, match="an address within its") as failed:
        nkisim.run(counted, np.array([[TILES + 1]], np.int32), X, options=options)
    stop = failed.value.stop
    done = [i for i in range(TILES) if stop.valid["o"][i].any()]
    assert done and done == list(range(len(done))) and stop.complete < stop.instructions + 1
    np.testing.assert_array_equal(stop.values["o"][done], X[done])


def test_who_waits_for_what(tmp_path):
    """At every instant: what runs is what the session has, and what is waited for has not ended."""
    whole = nkisim.run(chain, X, target="trn2")
    for at in np.linspace(0, whole.latency_us + 3, 25):
        stop = nkisim.run(chain, X, target="trn2", stop_at=f"{at:.4f}us").stop
        for row in stop.engines:
            runs, following = row["runs"], row["next"]
            assert runs is None or runs["start_us"] <= stop.at_us < runs["end_us"]
            if following is None:
                assert row["waits_for"] is None
                continue
            assert following["start_us"] > stop.at_us
            who = row["waits_for"].split(" (")[0]
            if who in ("vector", "scalar", "tensor"):
                other = next(e for e in stop.engines if e["engine"] == who)
                assert other["runs"] is not None or other["next"] is not None
        assert f"stop at {stop.at_us:.3f} us: {stop.complete} of {5 * TILES} instructions" in str(stop)
    assert stop.complete == 5 * TILES and stop.under_way == []


def test_a_run_that_ends_in_a_deadlock_shows_its_stop(tmp_path):
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2", "semaphores": "explicit"},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 4], "dtype": "float32", "role": "output"}},
        {"tensor": {"name": "a", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": 0}},
        {"i": "memset", "dst": "a", "value": 1.0, "engine": "vector"},
        {"i": "dma_copy", "dst": "o", "src": "a", "wait": [[3, ">=", 1]]}])
    done = cli("run", trace, "--stop-at", "5us", "--dump", "a", "--allow-races", code=3)
    assert "deadlock" in done.stderr or "S[3]" in done.stderr
    assert "stop at 5.000 us: 1 of 1 instructions are complete" in done.stdout
    assert "512 of 512 elements have a value" in done.stdout


@pytest.mark.parametrize(("words", "text"), [
    (["--stop-at", "12"], "stop-at is 12; a time such as 12.3us"),
    (["--stop-at", "-3us"], "stop-at is -3us"),
    (["--stop-at", "k.py:0#0"], "stop-at is k.py:0#0"),
    (["--stop-at", "other.py:7"], "a line of the program is required"),
    (["--stop-at", "1us", "--dump", "oo"], "dump is oo; the name of a tensor of the program; did you mean o?"),
    (["--dump", "o"], "--stop-at, which is not given"),
    (["--stop-at", "1us", "--dump-to", "v.npz"], "--dump-to needs --dump"),
    (["--stop-at", "1us", "--functional"], "--stop-at needs time"),
    (["--stop-at", "1us", "--timing-only", "--dump", "o"], "--dump needs values"),
])
def test_refused(tmp_path, words, text):
    trace = saved(tmp_path, chain, X)
    done = cli("run", trace, *words, code=None, cwd=tmp_path)
    assert done.returncode in (2, 3) and text in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("error") <= 1


def test_refused_in_python():
    for how, text in (({"timing": False}, "no instant to stop at"), ({"timing": "only", "dump": ["o"]}, "none to dump"),
                      ({"dump": ["unknown"]}, "unknown"), ({"ranks": 2, "processes": 2}, "processes is 2, and 1")):
        with pytest.raises(nkisim.Error, match=text):
            nkisim.run(chain if "ranks" not in how else gathered, X[:2], target="trn2", stop_at="1us", **how)
    assert nkisim.run(chain, X, target="trn2", timing="only", stop_at="1us").stop.values == {}


def test_stopped_runs_do_not_hold_up_others():
    """Runs of one process at the same time, stopped and not."""
    wanted = nkisim.run(chain, X, target="trn2")
    alone = nkisim.run(chain, X, target="trn2", stop_at="9us").stop
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda n: nkisim.run(chain, X, target="trn2", stop_at="9us" if n % 2 else None), range(8)))
    for n, run in enumerate(runs):
        assert run.latency_ns == wanted.latency_ns and (run.stop is None) == (n % 2 == 0)
        if run.stop is not None:
            assert str(run.stop) == str(alone)
            np.testing.assert_array_equal(run.stop.valid["o"], alone.valid["o"])


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "traces").glob("*.jsonl")))
def test_a_stop_behind_the_end_has_the_outputs(tmp_path, name):
    """Loops, registers and gathers, too: the walk of the sequencers comes to the same end."""
    trace = ROOT / "traces" / f"{name}.jsonl"
    outputs = [t["name"] for t in (json.loads(line).get("tensor", {}) for line in trace.read_text().splitlines()[1:])
               if t.get("role") in ("output", "input_output")]
    done = json.loads(cli("run", trace, "--json", "--stop-at", "1s", "--dump", ",".join(outputs), "--dump-to",
                          tmp_path / "v.npz", "--outputs", tmp_path / "o.npz", "--session", tmp_path / "s.npz").stdout)
    rank = done["stop"]["ranks"][0]
    assert rank["complete"] == rank["instructions"] and rank["under_way"] == []
    assert all(e["runs"] is None and e["waits_for"] is None for e in rank["engines"])
    with np.load(tmp_path / "v.npz") as found, np.load(tmp_path / "o.npz") as wanted:
        assert sorted(found) == sorted(wanted) == sorted(outputs)
        for output in outputs:
            assert found[output].tobytes() == wanted[output].tobytes()
    # Values come one after the other, and each as it stays where a program writes it once.
    valid = dict.fromkeys(outputs, 0)
    for at in np.linspace(0, done["latency_us"], 6):
        part = json.loads(cli("run", trace, "--json", "--stop-at", f"{at:.3f}us", "--dump", ",".join(outputs)).stdout)
        values = part["stop"]["ranks"][0]["values"]
        assert all(values[o]["valid"] >= valid[o] for o in outputs)
        valid = {o: values[o]["valid"] for o in outputs}
