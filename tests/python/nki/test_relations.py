"""Tests random kernels by relations between runs (metamorphic tests): moved, renamed, scaled,
permuted, split, unrolled, repeated, on a faster machine. NKISIM_DRAWN_CASES runs more.
"""

import json
import os

import numpy as np
import pytest

from nkisim_work import Worker

pytestmark = pytest.mark.process
CASES = int(os.environ.get("NKISIM_DRAWN_CASES", 400)) // 10
NUMBER_OPS = ["add", "subtract", "multiply", "max", "min"]


class RandomCase:
    """A program of instructions that work on rows of their own: lines of a trace, and its inputs."""

    def __init__(self, seed, linear=False):
        self.rng = rng = np.random.default_rng(seed)
        self.shape = [int(rng.choice([1, 3, 32, 64, 128])), int(rng.integers(1, 300))]
        self.dtype = "float32" if linear else str(rng.choice(["float32", "bfloat16", "float16"]))
        self.size = {"float32": 4}.get(self.dtype, 2)
        self.tiles = int(rng.integers(2, 5))
        self.steps = [self._step(linear) for _ in range(int(rng.integers(1, 7)))]
        self.x = rng.standard_normal(self.shape).astype(np.float32)

    def _step(self, linear):
        one, two, to = (f"t{self.rng.integers(self.tiles)}" for _ in range(3))
        kind = self.rng.integers(2 if linear else 4)
        if kind == 0:
            op = self.rng.choice(NUMBER_OPS[:2] if linear else NUMBER_OPS)
            return {"i": "tensor_tensor", "dst": to, "data1": one, "data2": two, "op": str(op)}
        if kind == 1:
            number = float(2.0 ** self.rng.integers(-2, 3))
            return {"i": "tensor_scalar", "dst": to, "data": one, "op0": "multiply", "operand0": number}
        if kind == 2:
            return {"i": "activation", "dst": to, "data": one, "op": str(self.rng.choice(["exp", "tanh", "relu"]))}
        return {"i": "tensor_copy", "dst": to, "src": one}

    def tensors(self, base=0, name="{}"):
        yield {"nisa": 1, "target": "trn2", "name": "k"}
        for tensor, role in (("x", "input"), ("y", "output")):
            yield {"tensor": {"name": name.format(tensor), "space": "hbm", "dtype": self.dtype, "shape": self.shape,
                              "role": role}}
        step = -(-self.shape[1] * self.size // 64) * 64
        for n in range(self.tiles):
            yield {"tensor": {"name": name.format(f"t{n}"), "space": "sbuf", "dtype": self.dtype, "shape": self.shape,
                              "address": base + n * step}}

    def body(self):
        """Loads into every tile, the steps, and the store of the last tile."""
        yield from ({"i": "dma_copy", "dst": f"t{n}", "src": "x"} for n in range(self.tiles))
        yield from self.steps
        yield {"i": "dma_copy", "dst": "y", "src": self.steps[-1]["dst"]}

    def lines(self, **where):
        return [*self.tensors(**where), *self.body()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relations")
    with Worker() as worker:
        def run_lines(lines, x, name="{}", **wishes):
            """(the output, the outcome)."""
            (folder / "k.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            np.savez(folder / "in.npz", **{name.format("x"): x})
            outcome = worker.run({"trace": str(folder / "k.jsonl"), "inputs": str(folder / "in.npz"),
                                  "outputs": str(folder / "out.npz"), **wishes})
            assert "error" not in outcome, outcome
            with np.load(folder / "out.npz") as found:
                return found[name.format("y")].copy(), outcome
        yield run_lines


def same(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("seed", range(CASES))
def test_tiles_may_lie_elsewhere_and_have_other_names(seed, run):
    drawn = RandomCase(seed)
    before, first = run(drawn.lines(), drawn.x)
    moved, second = run(drawn.lines(base=64 * (1 + seed % 900)), drawn.x)
    assert same(before, moved) and first["latency_us"] == second["latency_us"]
    renamed = json.loads(json.dumps(drawn.lines(name="long_{}_name")))
    for line in renamed:
        line.update({k: f"long_{v}_name" for k, v in line.items()
                     if k in ("dst", "src", "data", "data1", "data2")})
    third, other = run(renamed, drawn.x, name="long_{}_name")
    assert same(before, third) and first["latency_us"] == other["latency_us"]


@pytest.mark.parametrize("seed", range(CASES))
def test_timed_and_interpreted_values_are_the_same(seed, run):
    drawn = RandomCase(seed)
    assert same(run(drawn.lines(), drawn.x)[0], run(drawn.lines(), drawn.x, want="values")[0])


@pytest.mark.parametrize("seed", range(CASES))
def test_linear_programs_scale(seed, run):
    """By a power of two, which rounds nothing."""
    drawn = RandomCase(seed, linear=True)
    once, first = run(drawn.lines(), drawn.x)
    scaled, second = run(drawn.lines(), drawn.x * 8)
    assert np.array_equal(once * 8, scaled) and first["latency_us"] == second["latency_us"]


@pytest.mark.parametrize("seed", range(CASES))
def test_rows_do_not_know_each_other(seed, run):
    """Permuted inputs give permuted outputs; fewer rows give the same ones."""
    drawn = RandomCase(seed)
    order = drawn.rng.permutation(drawn.shape[0])
    before, first = run(drawn.lines(), drawn.x)
    permuted, second = run(drawn.lines(), drawn.x[order])
    assert same(before[order], permuted) and first["latency_us"] == second["latency_us"]
    part = RandomCase(seed)
    part.shape = [1, part.shape[1]]
    alone, shorter = run(part.lines(), drawn.x[:1])
    assert same(before[:1], alone) and shorter["latency_us"] <= first["latency_us"]


@pytest.mark.parametrize("seed", range(CASES))
def test_an_instruction_may_be_split_by_columns(seed, run):
    drawn = RandomCase(seed)
    if drawn.shape[1] < 2:
        drawn.shape[1], drawn.x = 2, np.repeat(drawn.x, 2, 1)
    cut = int(drawn.rng.integers(1, drawn.shape[1]))

    def halves(line):
        for part in (f"[:, 0:{cut}]", f"[:, {cut}:{drawn.shape[1]}]"):
            yield {k: v + part if k in ("dst", "src", "data", "data1", "data2") else v for k, v in line.items()}

    whole, first = run(drawn.lines(), drawn.x)
    split, second = run([*drawn.tensors(), *(h for line in drawn.body() for h in halves(line))], drawn.x)
    assert same(whole, split) and second["instructions"] == 2 * first["instructions"]


@pytest.mark.parametrize("seed", range(CASES))
def test_a_loop_is_its_iterations(seed, run):
    drawn = RandomCase(seed)
    times = int(drawn.rng.integers(0, 5))
    head = [{"i": "dma_copy", "dst": f"t{n}", "src": "x"} for n in range(drawn.tiles)]
    end = [{"i": "dma_copy", "dst": "y", "src": "t0"}]
    begin = {"i": "loop_begin", "engine": "sync", "register": "r4", "start": 0, "stop": times, "step": 1}
    loop = [*drawn.tensors(), *head, begin, *drawn.steps, {"i": "loop_end", "engine": "sync"}, *end]
    flat = [*drawn.tensors(), *head, *drawn.steps * times, *end]
    assert same(run(loop, drawn.x)[0], run(flat, drawn.x)[0])


@pytest.mark.parametrize("seed", range(CASES))
def test_work_that_is_done_twice_is_counted_twice(seed, run):
    drawn = RandomCase(seed)
    once, twice = (run([*drawn.tensors(), *list(drawn.body()) * n], drawn.x)[1] for n in (1, 2))
    assert twice["instructions"] == 2 * once["instructions"] and twice["latency_us"] > once["latency_us"]
    first, second = (o["totals"] for o in (once, twice))
    counted = [k for k in first if k.endswith(("_read_bytes", "_write_bytes", "_total_bytes"))]
    assert counted and all(second[k] == 2 * first[k] for k in counted), (first, second)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_faster_machine_is_not_slower(seed, run):
    drawn = RandomCase(seed)
    times = [run(drawn.lines(), drawn.x, set=[f"dma.bytes_per_ns={rate}"])[1]["latency_us"] for rate in (5, 10, 20)]
    assert times == sorted(times, reverse=True)
