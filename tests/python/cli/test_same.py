"""Tests `nkisim same` on pairs of programs that compute the same in other ways, and on pairs that
differ.
"""

import json

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim

from running import PROGRAM, ROOT, cli, python, write_trace

pytestmark = pytest.mark.process

HEADER = {"nisa": 1, "target": "trn2", "addresses": "virtual"}


def tensor(name, role="", shape=(128, 64), space="hbm", dtype="float32"):
    return {"tensor": {"name": name, "space": space, "shape": list(shape), "dtype": dtype,
                       **({"role": role} if role else {})}}


def program(folder, name, *lines, dtype="float32", tiles="tuv"):
    """A program of x, z to y, with tiles t, u and v."""
    return write_trace(folder / f"{name}.jsonl", [
        HEADER, tensor("x", "input"), tensor("z", "input"), tensor("y", "output"),
        *(tensor(t, space="sbuf", dtype=dtype if t == "u" else "float32") for t in tiles),
        {"i": "dma_copy", "dst": "t", "src": "x"}, {"i": "dma_copy", "dst": "v", "src": "z"}, *lines,
        {"i": "dma_copy", "dst": "y", "src": "u" if dtype == "float32" else "v"}])


def scalar(op, value, dst="u", data="t", **more):
    return {"i": "tensor_scalar", "dst": dst, "data": data, "op0": op, "operand0": value, **more}


def binary_op(op, dst="u", one="t", two="v", **more):
    return {"i": "tensor_tensor", "dst": dst, "data1": one, "data2": two, "op": op, **more}


def act(op, dst="u", data="t", **more):
    return {"i": "activation", "dst": dst, "data": data, "op": op, **more}


def verdict_json(one, two, *options, code):
    return json.loads(cli("same", one, two, "--json", *options, code=code).stdout)


SAME = {
    "the order of operands": ([binary_op("add")], [binary_op("add", one="v", two="t")]),
    "a product's order, on another engine": ([binary_op("multiply")],
                                             [binary_op("multiply", one="v", two="t", engine="gpsimd")]),
    "a detour over another tile": ([scalar("multiply", 3.0)],
                                   [{"i": "tensor_copy", "dst": "u", "src": "t"},
                                    scalar("multiply", 3.0, dst="u", data="u")]),
    "two halves": ([act("exp")], [act("exp", "u[:, 0:32]", "t[:, 0:32]"), act("exp", "u[:, 32:64]", "t[:, 32:64]")]),
    "two instructions instead of one": ([scalar("multiply", 2.0, op1="add", operand1=1.0)],
                                        [scalar("multiply", 2.0, dst="u"), scalar("add", 1.0, data="u")]),
    "scale and bias": ([scalar("multiply", 2.0, dst="u"), act("tanh", data="u")], [act("tanh", scale=2.0)]),
    "an idle reduce command": ([act("exp")], [act("exp", reduce_cmd="idle")]),
    "the grouping of a sum": ([binary_op("add", "u"), binary_op("add", "u", "u", "t")],
                              [binary_op("add", "u", "t", "t"), binary_op("add", "u", "u", "v")]),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_programs_are_proved_equal(name, tmp_path):
    one, two = (program(tmp_path, n, *lines) for n, lines in zip("ab", SAME[name], strict=True))
    found = verdict_json(one, two, code=0)
    assert (found["verdict"], found["elements"], found["different_expressions"]) == ("same", 128 * 64, 0)


def relu_by_mask():
    return [scalar("greater", 0.0, dst="u"), binary_op("multiply", "u", "t", "u")]


DIFFERENT = {
    # name: the programs, and which inputs show it
    "another constant": ([scalar("add", 1.0)], [scalar("add", 1.001)], "normal"),
    "one element": ([act("exp")], [act("exp"), {"i": "memset", "dst": "u[32:33, 5:6]", "value": 0.0}], "normal"),
    "a relu by a mask: infinity times zero": ([scalar("maximum", 0.0)], relu_by_mask(), "corners"),
    "a quotient that overflows first": ([scalar("multiply", 1e30, dst="u"), scalar("multiply", 1e-30, data="u")],
                                        [{"i": "tensor_copy", "dst": "u", "src": "t"}], "corners"),
    "an order of operands that counts": ([binary_op("subtract")], [binary_op("subtract", one="v", two="t")], "normal"),
    "greater or equal": ([binary_op("greater")], [binary_op("greater_equal")], "small"),
    "the other input": ([act("exp")], [act("exp", data="v")], "normal"),
    "a bound that only large values reach": ([{"i": "tensor_copy", "dst": "u", "src": "t"}],
                                             [scalar("minimum", 1e6)], "corners"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_differ_get_inputs_that_show_it(name, tmp_path):
    one, two, shown = DIFFERENT[name]
    a, b = program(tmp_path, "a", *one), program(tmp_path, "b", *two)
    found = verdict_json(a, b, "--witness", tmp_path / "shows.npz", code=1)
    assert found["verdict"] == "differ" and found["inputs"].startswith(shown)
    assert found["different_expressions"] > 0
    results = []
    for trace in (a, b):  # the inputs do show it, in a run of its own
        cli("run", trace, "--functional", "--inputs", tmp_path / "shows.npz", "--outputs", tmp_path / "out.npz",
            code=None)
        results.append(np.load(tmp_path / "out.npz")["y"].reshape(-1)[found["element"]])
    assert not np.allclose(*results, rtol=1e-5, atol=1e-8, equal_nan=True)


def test_what_neither_proof_nor_inputs_decide_is_undecided(tmp_path):
    twice = program(tmp_path, "a", scalar("multiply", 2.0))
    sum_of_two = program(tmp_path, "b", binary_op("add", "u", "t", "t"))
    found = verdict_json(twice, sum_of_two, code=1)
    assert found["verdict"] == "undecided" and found["different_expressions"] == 128 * 64
    assert found["first_of_b"].startswith("tensor_tensor at line") and found["first_of_a"].startswith("tensor_scalar")


def test_an_order_of_sums_that_is_to_count(tmp_path):
    one, two = (program(tmp_path, n, *lines) for n, lines in zip("ab", SAME["the grouping of a sum"], strict=True))
    assert verdict_json(one, two, "--sums", "in-order", code=1)["verdict"] == "undecided"


def test_a_narrow_tile_between_is_another_value(tmp_path):
    kept = {"i": "tensor_copy", "dst": "v", "src": "u"}
    wide = program(tmp_path, "a", scalar("add", 1.0), kept, binary_op("add", "u", "u", "v"))
    narrow = program(tmp_path, "b", scalar("add", 1.0), kept, dtype="bfloat16")
    other = program(tmp_path, "c", scalar("add", 1.0, dst="v"), dtype="bfloat16")
    assert verdict_json(narrow, other, code=1)["verdict"] == "differ"
    assert verdict_json(wide, wide, code=0)["verdict"] == "same"


def test_what_it_does_not_cover_has_a_reason(tmp_path):
    one = write_trace(tmp_path / "a.jsonl", [
        HEADER, tensor("y", "output", dtype="int32"), tensor("t", space="sbuf", dtype="int32"),
        {"i": "rng", "dst": "t"}, {"i": "dma_copy", "dst": "y", "src": "t"}])
    found = verdict_json(one, one, code=1)
    assert found["verdict"] == "undecided" and "random numbers" in found["why"]


def test_unlike_programs_are_one_error(tmp_path):
    one = program(tmp_path, "a", act("exp"))
    two = write_trace(tmp_path / "b.jsonl", [
        HEADER, tensor("x", "input", (128, 32)), tensor("z", "input"), tensor("y", "output"),
        tensor("t", space="sbuf"), {"i": "dma_copy", "dst": "t", "src": "z"},
        {"i": "dma_copy", "dst": "y", "src": "t"}])
    failed = cli("same", one, two, code=3)
    assert "x float32[128, 32]" in failed.stderr and "x float32[128, 64]" in failed.stderr


def test_programs_without_outputs_are_not_the_same(tmp_path):
    """Nothing of them could be compared."""
    files = [write_trace(tmp_path / f"{value}.jsonl", [
        HEADER, tensor("x", "input"), tensor("y"), tensor("t", space="sbuf"), tensor("u", space="sbuf"),
        {"i": "dma_copy", "dst": "t", "src": "x"}, scalar("multiply", value),
        {"i": "dma_copy", "dst": "y", "src": "u"}])
        for value in (2.0, 3.0)]
    failed = cli("same", *files, code=3)
    assert "the outputs of the first program is none; an output at least is required" in failed.stderr


def random_instructions(random):
    """Some instructions on tiles t, u and v, of which u is the result."""
    lines = []
    for _ in range(random.integers(2, 6)):
        dst, one, two = (str(random.choice(list("tuv"))) for _ in range(3))
        op = str(random.choice(["add", "subtract", "multiply", "maximum"]))
        lines.append([binary_op(op, dst, one, two), scalar(op, float(random.integers(-2, 3)), dst, one),
                      act(str(random.choice(["exp", "tanh", "copy"])), dst, one, scale=float(random.integers(0, 3))),
                      {"i": "tensor_copy", "dst": dst, "src": one}][random.integers(4)])
    return [*lines, binary_op("add", "u", "u", str(random.choice(list("tv"))))]


def changed(lines, random):
    """The same with one operator, operand or place changed, which may change nothing."""
    lines = [dict(line) for line in lines]
    line = lines[random.integers(len(lines))]
    key = str(random.choice([k for k in line if k != "i"]))
    value = line[key]
    if isinstance(value, float):
        line[key] = value + float(random.integers(-1, 2))
    elif value in ("exp", "tanh", "copy"):
        line[key] = str(random.choice(["exp", "tanh", "copy"]))
    elif len(value) > 1:
        line[key] = str(random.choice(["add", "subtract", "multiply", "maximum"]))
    else:
        line[key] = str(random.choice(list("tuv")))
    return lines


@pytest.mark.slow
def test_a_verdict_of_random_pairs_is_never_wrong(tmp_path):
    random = np.random.default_rng(7)
    verdicts = {"same": 0, "differ": 0, "undecided": 0}
    for i in range(60):
        lines = random_instructions(random)
        pair = [program(tmp_path, f"{i}{n}", *some) for n, some in (("a", lines), ("b", changed(lines, random)))]
        verdict = verdict_json(*pair, code=None)["verdict"]
        verdicts[verdict] += 1
        if verdict == "same":
            for k in range(2):
                inputs = {name: random.normal(0, 10 ** k, (128, 64)).astype(np.float32) for name in "xz"}
                np.savez(tmp_path / "in.npz", **inputs)
                outputs = []
                for trace in pair:
                    cli("run", trace, "--functional", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "o.npz",
                        "--allow-unwritten")
                    outputs.append(np.load(tmp_path / "o.npz")["y"])
                np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-5)
    assert verdicts["same"] >= 10 and verdicts["differ"] >= 20, verdicts


# ---- Kernels -----------------------------------------------------------------------------------

def product(order, columns):
    """A product of [256, 128] and [256, 1024], in tiles of `columns`, its two halves of K in an order."""
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
        weights = []
        for k in range(2):
            tile = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[k * 128:(k + 1) * 128, 0:128])
            weights.append(tile)
        for n in range(0, 1024, columns):
            sums = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
            for i, k in enumerate(order):
                moving = nl.ndarray((128, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.dma_copy(dst=moving, src=b[k * 128:(k + 1) * 128, n:n + columns])
                nisa.nc_matmul(dst=sums, stationary=weights[k], moving=moving, accumulate=i > 0)
            result = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=sums)
            nisa.dma_copy(dst=out[0:128, n:n + columns], src=result)
        return out

    return kernel


def saved(kernel, path, compiled=False):
    import ml_dtypes

    ones = np.ones((256, 128), ml_dtypes.bfloat16), np.ones((256, 1024), ml_dtypes.bfloat16)
    nkisim.run(kernel, *ones, target="trn2").save(path, compiled=compiled)
    return path


def test_tilings_and_orders_of_a_product(tmp_path):
    naive = saved(product((0, 1), 256), tmp_path / "naive.nisa")
    tiled = saved(product((1, 0), 512), tmp_path / "tiled.nisa")
    placed = saved(product((1, 0), 512), tmp_path / "placed.nisa", compiled=True)
    for other in (tiled, placed):  # also as the compiler left it
        found = verdict_json(naive, other, code=0)
        assert found["verdict"] == "same" and found["elements"] == 128 * 1024
    lacks = saved(product((1,), 512), tmp_path / "lacks.nisa")
    found = verdict_json(naive, lacks, code=1)
    assert found["verdict"] == "differ" and "test_same.py" in found["first_of_a"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["tiled", "accumulated", "hoisted", "buffered"])
def test_each_step_of_the_tutorial_computes_what_the_first_does(step, tmp_path, monkeypatch):
    import importlib.util

    import ml_dtypes

    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    spec = importlib.util.spec_from_file_location("matmul", ROOT / "examples" / "matmul.py")
    matmul = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matmul)
    ones = [np.ones((512, 512), ml_dtypes.bfloat16)] * 2
    traces = []
    for name in ("naive", step):
        traces.append(tmp_path / f"{name}.nisa")
        nkisim.run(getattr(matmul, name), *ones, target="trn2", timing=False).save(traces[-1])
    assert verdict_json(*traces, code=0)["verdict"] == "same"


COUNT = 2000
TILES = [f"w{i}" for i in range(COUNT)]
MANY = {  # lines before the last, and tiles
    "results of one tile": ([binary_op("add"), *[act("copy")] * COUNT], "tuv"),
    "tiles": ([act("copy", dst=w) for w in TILES], ["t", "u", "v", *TILES])}


@pytest.mark.parametrize("name", MANY)
def test_memory_for_what_is_over(name, tmp_path):
    """Outputs, and tiles that will be read, have numbers. 2,000 results of 8,192 elements had taken
    256 MB for each program, 2,000 tiles 512 MB."""
    lines, tiles = MANY[name]
    one = program(tmp_path, "a", *lines, binary_op("add"), tiles=tiles)
    two = program(tmp_path, "b", *lines, binary_op("add", one="v", two="t"), tiles=tiles)
    # A child begins with the size of its parent, which is small here.
    done = python("-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", PROGRAM, "same", one, two)
    assert int(done.stdout.split()[-1]) * 1024 < 220e6
