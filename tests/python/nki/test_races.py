"""Tests that kernels whose two cores touch the same HBM in no order are refused, with both lines."""

import json
import pathlib
import warnings

import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.ones((128, 512), np.float32)


def line_of(text):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.endswith("# " + text))


def both_store(x, delay):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.full((128, 512), float(nl.program_id(0) + 1), dtype=x.dtype)
    for _ in range(delay if nl.program_id(0) else 5):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)  # store
    return out


def update(x, barrier=False):
    """Core 0 doubles x, core 1 copies it."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if nl.program_id(0) == 0:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=shared, src=tile)  # update
    if barrier:
        nisa.core_barrier(shared, (0, 1))
    if nl.program_id(0) == 1:
        other = nl.load(shared)  # read
        nisa.dma_copy(dst=out, src=other)
    return out


def gathered(x, index, first):
    """Each core scatters rows of its own choice; core 1's begin at `first`."""
    out = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.load(index[nl.program_id(0)])
    tile = nl.ndarray((4, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, value=1.0)
    nisa.dma_copy(dst=out.ap([[512, 4], [1, 512]], vector_offset=rows, indirect_dim=0), src=tile)
    return out


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("delay", [0, 50])
def test_both_cores_store(delay, timing):
    with pytest.raises(nkisim.Error, match=r"race \(WAW\)") as found:
        nkisim.run(both_store, X, delay, grid=2, target="trn2", timing=timing)
    assert found.value.kernel_line == line_of("store")
    assert f"test_races.py:{line_of('store')}" in str(found.value)
    assert "core_barrier" in str(found.value)


def test_writing_what_fresh_memory_holds_is_no_repetition():
    def kernel(x, value):
        shared = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((2, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=value)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=shared[0:2], src=tile)
            nisa.dma_copy(dst=out[2:4], src=tile)
        else:
            nisa.dma_copy(dst=shared[2:4], src=tile)
            nisa.dma_copy(dst=out[0:2], src=shared[0:2])  # core 0 may not have written it
        return out

    for value in (0.0, 1.0):
        with pytest.raises(nkisim.Error, match="race"):
            nkisim.run(kernel, np.ones((4, 8), np.float32), value, grid=2, target="trn2")


def test_both_cores_may_store_the_same():
    def same(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.load(x))
        return out
    x = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    np.testing.assert_array_equal(np.asarray(nkisim.run(same, x, grid=2, target="trn2").outputs), x)


def zeroed_then_scattered(x, index, offset=0.0, look=False, apart=False):
    """Both cores zero `out` and scatter the same rows into it."""
    out = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    seen = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    zeros = nl.zeros((8, 512), dtype=x.dtype)
    tile, rows = nl.load(x[0:4]), nl.load(index)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=offset * core)

    def scatter():
        nisa.dma_copy(dst=out.ap([[512, 4], [1, 512]], vector_offset=rows, indirect_dim=0), src=tile)

    nisa.dma_copy(dst=out, src=zeros)
    if not apart or core == 0:
        scatter()
    if apart:  # the cores are not as far when they meet
        nisa.core_barrier(seen, (0, 1))
        if core == 1:
            scatter()
    if look:
        nisa.dma_copy(dst=seen, src=nl.load(out))  # look
    return (out, seen) if look else out


def test_both_cores_may_write_the_same_in_the_same_order():
    x = np.random.default_rng(0).random((128, 512), np.float32)
    index = np.array([6, 1, 3, 4], np.int32)[:, None]
    expected = np.zeros((8, 512), np.float32)
    expected[index[:, 0]] = x[:4]
    for timing in (True, False):
        found = nkisim.run(zeroed_then_scattered, x, index, grid=2, target="trn2", timing=timing)
        np.testing.assert_array_equal(np.asarray(found.outputs), expected)


@pytest.mark.parametrize("otherwise, hazard", [
    ({"offset": 1.0}, "WAW"), ({"apart": True}, "WAW"), ({"look": True}, "RAW|WAR")],
    ids=["other values", "in another order with the barrier", "read in between"])
def test_the_same_in_the_same_order_is_needed(otherwise, hazard):
    index = np.array([6, 1, 3, 4], np.int32)[:, None]
    with pytest.raises(nkisim.Error, match=rf"race \(({hazard})\)"):
        nkisim.run(zeroed_then_scattered, X, index, grid=2, target="trn2", **otherwise)


def test_a_barrier_orders_them():
    with pytest.raises(nkisim.Error, match=r"race \(RAW\)") as found:
        nkisim.run(update, X, grid=2, target="trn2")
    assert found.value.kernel_line == line_of("read")
    assert f"test_races.py:{line_of('update')}" in str(found.value)
    result = nkisim.run(update, X, barrier=True, grid=2, target="trn2")
    np.testing.assert_array_equal(np.asarray(result.outputs), 2 * X)


@pytest.mark.parametrize("second, races", [(4, False), (3, True)])
def test_rows_are_those_of_the_run(second, races):
    index = np.array([[0, 1, 2, 3], [second, 5, 6, 7]], np.int32)[:, :, None]
    run = lambda: nkisim.run(gathered, X, index, second, grid=2, target="trn2")  # noqa: E731
    if not races:
        run()
        return
    with pytest.raises(nkisim.Error, match=r"race \(WAW\).*bytes 6144 to 8191"):
        run()


def test_allowed_races_are_warnings(monkeypatch):
    with pytest.warns(UserWarning, match=r"race \(WAW\)"):
        nkisim.run(both_store, X, 0, grid=2, target="trn2", allow_races=True)
    monkeypatch.setenv("NKISIM_ALLOW_RACES", "1")
    with pytest.warns(UserWarning, match=r"race \(WAW\)"):
        nkisim.run(both_store, X, 0, grid=2, target="trn2")


def test_one_core_has_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nkisim.run(both_store, X, 0, target="trn2")


RACY = """\
{"nisa": 1, "target": "trn2", "name": "k", "semaphores": "explicit", "semaphore_names": {"0": "in"}}
{"tensor": {"name": "x", "shape": [128, 512], "dtype": "float32", "role": "input", "data": {"generator": "ones"}}}
{"tensor": {"name": "t", "space": "sbuf", "shape": [128, 512], "dtype": "float32", "address": 0}}
{"tensor": {"name": "u", "space": "sbuf", "shape": [128, 512], "dtype": "float32", "address": 2048}}
{"i": "dma_copy", "dst": "t", "src": "x", "engine": "sync", "post": [["in", "+=", 16]]}
{"i": "tensor_copy", "dst": "u", "src": "t[:, 0:256]", "engine": "vector", "wait": [["in", ">=", WAIT]]}
""".replace('"u", "src"', '"u[:, 0:256]", "src"')


@pytest.fixture
def trace(written):
    return lambda wait: written([RACY.replace("WAIT", str(wait))])


@pytest.mark.process
def test_run_refuses_a_race(trace):
    racy = trace(8)
    for more in ([], ["--functional"], ["--timing-only"]):
        done = cli("run", racy, "-q", *more, code=3)
        assert "k.jsonl:6: tensor_copy: race (RAW)" in done.stderr
        assert "a wait for S[0] (in) >= 16 would order them, not S[0] (in) >= 8" in done.stderr
    done = cli("run", racy, "-q", "--allow-races")
    assert "warning" in done.stderr and "race (RAW)" in done.stderr
    done = cli("run", racy, "--json", code=3)
    assert json.loads(done.stdout)["error"]["kind"] == "race"
    cli("run", trace(16), "-q")


@pytest.mark.process
def test_check_says_what_and_where(trace):
    done = cli("check", trace(8), "--races", "--json", code=3)
    found = json.loads(done.stdout)
    [race] = found["races"]
    assert (race["hazard"], race["tensor"], race["bytes"], race["partitions"]) == (
        "RAW", "t", [0, 1024], [0, 128])
    assert (race["first"]["line"], race["second"]["line"], race["count"]) == (5, 6, 1)
    assert "k.jsonl:6: tensor_copy: race (RAW): " in race["text"]
    assert race["waits"] == [{"semaphore": 0, "value": 16, "name": "in"}]
    done = cli("check", trace(16), "--races")
    assert done.stderr == ""
    assert "no races in 2 instructions executed" in done.stdout


def test_sums_onto_a_cleared_bank_alternately_are_no_groups():
    """As nki-library's attention_bwd: the compiler may let the first products overwrite, but the kernel
    begins no group."""
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        sums = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(sums, value=0.0)
        for _ in range(2):
            for part in (slice(0, 256), slice(256, 512)):
                nisa.nc_matmul(dst=sums[:, part], stationary=tile[:, 0:128], moving=tile[:, part])
        nl.store(out, nl.copy(sums))
        return out

    x = np.random.default_rng(0).integers(-3, 4, (128, 512)).astype(np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = nkisim.run(kernel, x, target="trn2").outputs
    np.testing.assert_array_equal(np.asarray(out), 2 * (x[:, :128].T @ x))
    assert not [w for w in caught if "accumulation group" in str(w.message)]
