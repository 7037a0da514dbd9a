"""Tests a run that Python saved to a file: `nkisim run` gives its values and its latency, and
--expect compares.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

pytestmark = pytest.mark.process


@nki.jit
def step(x, cache):
    """Returns x + 1 and adds x to its second argument."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(held, cache)
    nisa.tensor_tensor(held, held, tile, nl.add)
    nisa.dma_copy(cache, held)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("ending", ["nisa", "jsonl"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_a_saved_run_meets_its_own_outputs(tmp_path, ending, dtype):
    x = (np.arange(64 * 16) % 8).reshape(64, 16).astype(dtype)
    cache = np.ones_like(x)
    result = nkisim.run(step, x, cache)
    trace, archive = tmp_path / f"k.{ending}", tmp_path / "k.expected.npz"
    result.save(trace)
    done = cli("run", trace, "--expect", archive, "--summary-json", tmp_path / "s.json")
    assert done.stdout.count("equal") == 2
    assert json.loads((tmp_path / "s.json").read_text()) == result.summary


def test_it_begins_as_the_run_began_whatever_its_arrays_hold_later(tmp_path):
    memory = np.arange(2 * 64 * 16, dtype=np.float32).reshape(2, 64, 16)
    x, cache = memory[0], memory[1]
    before = x.copy(), cache.copy()
    result = nkisim.run(step, x, cache)
    np.testing.assert_array_equal(cache, before[0] + before[1])
    result.write(session=tmp_path / "first")  # runs it again
    memory += 1
    for again in (False, True):
        result.save(tmp_path / "k.nisa")
        kept = np.load(tmp_path / "k.npz")
        np.testing.assert_array_equal(kept["x"], before[0])
        np.testing.assert_array_equal(kept["cache"], before[1])
        assert cli("run", tmp_path / "k.nisa", "--expect", tmp_path / "k.expected.npz").stdout.count("equal") == 2
        if not again:
            result.write(session=tmp_path / "second")


@pytest.mark.filterwarnings("ignore:.*share memory")
def test_arguments_that_share_memory_are_saved_as_two(tmp_path):
    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    result = nkisim.run(step, x, x[:])
    result.save(tmp_path / "k.nisa")
    kept = np.load(tmp_path / "k.npz")
    np.testing.assert_array_equal(kept["x"], np.arange(64 * 16, dtype=np.float32).reshape(64, 16))
    assert cli("run", tmp_path / "k.nisa", "--expect", tmp_path / "k.expected.npz").stdout.count("equal") == 2


def test_a_difference_is_seen(tmp_path):
    x = np.ones((64, 16), np.float32)
    result = nkisim.run(step, x, x.copy())
    result.save(tmp_path / "k.nisa")
    archive = dict(np.load(tmp_path / "k.expected.npz"))
    name = next(k for k in archive if k.startswith("out"))
    archive[name][3, 5] += 1
    np.savez(tmp_path / "other.npz", **archive)
    done = cli("run", tmp_path / "k.nisa", "--expect", tmp_path / "other.npz", code=1)
    assert "worst at 53" in done.stderr


@pytest.mark.parametrize("ending", ["nisa", "jsonl"])
@pytest.mark.parametrize("name", ["38", "-x", "a b", "x[0]", "nan", ""])
def test_any_name_of_a_tile_can_be_saved(tmp_path, ending, name):
    """A trace's names are no numbers and have no blanks or brackets; a kernel's may."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(2):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=name)
            nisa.dma_copy(tile, x)
            nisa.dma_copy(out, tile)
        return out

    result = nkisim.run(kernel, np.ones((8, 4), np.float32))
    result.save(tmp_path / f"k.{ending}")
    cli("run", tmp_path / f"k.{ending}", "--expect", tmp_path / "k.expected.npz")


@pytest.mark.parametrize("ranks", [None, 2])
def test_arguments_may_be_called_as_those_of_what_writes_archives(tmp_path, ranks):
    def kernel(file, allow_pickle):
        out = nl.ndarray(file.shape, dtype=file.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray(file.shape, dtype=file.dtype, buffer=nl.sbuf) for _ in range(2)]
        nisa.dma_copy(tiles[0], file)
        nisa.dma_copy(tiles[1], allow_pickle)
        nisa.tensor_tensor(tiles[0], tiles[0], tiles[1], nl.add)
        nisa.dma_copy(out, tiles[0])
        return out

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    result = nkisim.run(kernel, x, 2 * x, ranks=ranks)
    result.save(tmp_path / "k.nisa")
    with np.load(tmp_path / "k.npz") as kept:
        assert np.array_equal(kept["file"], x) and np.array_equal(kept["allow_pickle"], 2 * x)
    expected = "k.expected.npz" if ranks is None else "k.expected.{rank}.npz"
    with np.load(tmp_path / expected.format(rank=0)) as kept:
        assert np.array_equal(kept["out"], 3 * x)
    cli("run", tmp_path / "k.nisa", "--expect", tmp_path / expected)
