"""Tests grids of tiles and blocks (NKI 0.7) against NumPy: random sizes, remainders, gaps,
prefixes.

NKISIM_DRAWN_CASES=10000 for the large run; a case is one kernel, its seed its number.
"""

import os

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

CASES = int(os.environ.get("NKISIM_DRAWN_CASES", "60"))


def drawn_key(rng, shape):
    """Coordinates of a grid: integers, slices with steps, and for each the chosen cells."""
    key, chosen = [], []
    for n in shape[:int(rng.integers(0, len(shape) + 1))]:
        if rng.random() < 0.3:
            at = int(rng.integers(n))
            key.append(at)
            chosen.append([at])
        else:
            a = int(rng.integers(n))
            b = int(rng.integers(a + 1, n + 1))
            step = int(rng.integers(1, 4))
            key.append(slice(a, b, step if rng.random() < 0.7 else None))
            chosen.append(list(range(n))[key[-1]])
    chosen += [list(range(n)) for n in shape[len(chosen):]]
    return tuple(key), chosen


class RandomCase:
    """A source shape, its tiles, perhaps blocks of them, and a selection; all by NumPy's own means."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        prefix = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
        self.tile = (int(rng.integers(1, 17)), int(rng.integers(1, 33)))
        ends = [int(rng.integers(1, 4 * t + 2)) for t in self.tile]
        self.elements = (*prefix, *ends)
        self.block = tuple(int(n) for n in rng.integers(1, 4, 2)) if rng.random() < 0.5 else None
        cell = [t * (self.block[k] if self.block else 1) for k, t in enumerate(self.tile)]
        units = [1] * len(prefix) + cell
        self.grid = tuple(-(-n // u) for n, u in zip(self.elements, units))
        self.key, chosen = drawn_key(rng, self.grid)
        self.indices = [np.concatenate([np.arange(c * u, min(c * u + u, n)) for c in cells])
                        for cells, u, n in zip(chosen, units, self.elements)]
        self.counts = [len(c) for c in chosen]
        self.x = rng.integers(-99, 99, self.elements).astype(np.float32)
        self.prefix = len(prefix)

    def expected(self):
        return self.x[np.ix_(*self.indices)]

    def kept(self):
        integers = [type(k) is int for k in self.key] + [False] * len(self.grid)
        return [k for k in range(len(self.grid)) if not integers[k]]


def selection(case, src):
    of = nl.tiles(src, tile_shape=case.tile)
    if case.block:
        of = nl.blocks(of, block_shape=case.block)
    return of[case.key] if case.key else of


def move(case, src, buffer):
    """Each tile of the selection through SBUF, or a packed grid there, into a packed grid in HBM."""
    chosen = selection(case, src)
    kept = case.kept()
    assert chosen.shape == tuple(case.counts[k] for k in kept)
    sizes = case.expected().shape
    assert chosen.element_shape == tuple(n for k, n in enumerate(sizes)
                                         if k in kept or k >= case.prefix)
    out = nl.empty_like(chosen, buffer=nl.shared_hbm)
    assert type(out) is type(chosen) and out.shape == chosen.shape
    assert out.element_shape == chosen.element_shape
    source, target = nl.tiles(chosen), nl.tiles(out)
    assert source.shape == target.shape
    packed = nl.empty_like(source, buffer=nl.sbuf) if buffer == "packed" else None
    for at in np.ndindex(source.shape):
        one = source[at]
        if packed is None:
            tile = nl.ndarray(one.element_shape[-2:], src.dtype, nl.sbuf)
        else:
            tile = packed[at].data
        assert tile.shape == one.element_shape[-2:]
        nisa.dma_copy(dst=tile, src=one.data)
        nisa.dma_copy(dst=target[at].data, src=tile)
    return out._tensor


@pytest.mark.parametrize("seed", range(CASES))
def test_a_random_selection_moves_as_numpy_selects(seed):
    """By tiles and packed, on one core and two; timed and untimed."""
    case = RandomCase(seed)
    kernel = nki.jit(lambda src: move(case, src, "packed" if seed % 2 else "tiles"))
    for timing in (False, True):
        got = nkisim.run(kernel, case.x, timing=timing, grid=2 if seed % 8 < 2 else None, allow_races=True)
        assert np.array_equal(got.outputs, case.expected())


@pytest.mark.parametrize("seed", range(CASES))
def test_random_data_is_the_selection_where_one_pattern_can_express_it(seed):
    case = RandomCase(seed)
    evenly = all(len(i) < 2 or len(set(np.diff(i))) == 1 for i in case.indices)

    def kernel(src):
        chosen = selection(case, src)
        assert chosen.is_data_representable is evenly
        whole = case.expected()
        if not evenly:
            with pytest.raises(ValueError, match="one access pattern"):
                chosen.data  # noqa: B018
            return src
        data = chosen.data
        assert data.size == whole.size
        out = nl.ndarray(data.shape, src.dtype, nl.shared_hbm)
        nisa.dma_copy(out, data)
        return out

    got = nkisim.run(kernel, case.x, timing=False).outputs
    assert np.array_equal(got.reshape(-1), (case.expected() if evenly else case.x).reshape(-1))


# ---- packed on chip ------------------------------------------------------------------------------
def test_tiles_on_chip_lie_one_behind_the_other():
    def kernel(x):
        grid = nl.alloc_tiles(tile_shape=(4, 6), element_shape=(7, 15), buffer=nl.sbuf,
                              dtype=nl.float32)
        assert grid.shape == (2, 3)
        assert grid._tensor.shape == (4, 36)  # the space of six whole tiles
        assert grid[1, 2].data.shape == (3, 3) and grid[1, 2].is_remainder
        assert not grid[0, 0].is_remainder and grid.is_remainder
        assert grid[0, :].data.shape == (4, 15)
        assert grid[1, :].data.shape == (3, 15)
        assert grid[:, 0].is_data_representable is False  # the second is cut off, the first is not
        assert grid[:1, ::2].is_data_representable is False
        nisa.memset(grid._tensor, 0)
        for i in range(2):
            for j in range(3):
                nisa.memset(grid[i, j].data, 10 * i + j + 1)
        out = nl.ndarray((4, 36), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, grid._tensor)
        return out

    expected = np.zeros((4, 6, 6), np.float32)
    for number, (i, j) in enumerate(np.ndindex(2, 3)):
        expected[:4 - i, number, :6 if j < 2 else 3] = 10 * i + j + 1
    assert np.array_equal(nkisim.run(kernel, np.zeros((1, 1), np.float32)).outputs,
                          expected.reshape(4, 36))


def test_whole_tiles_on_chip_are_one_operand():
    def kernel(x):
        grid = nl.alloc_tiles(tile_shape=(4, 6), element_shape=(8, 18), buffer=nl.sbuf,
                              dtype=nl.float32)
        assert grid.data.shape == (4, 2, 18)  # partitions, tiles along them, elements
        assert not grid[:, ::2].is_data_representable  # tiles 0, 2, 3 and 5
        assert grid[0].data.shape == (4, 18) and grid[1, ::2].data.shape == (4, 2, 6)
        nisa.memset(grid.data, 3)
        nisa.memset(grid[1, ::2].data, 5)
        out = nl.ndarray((4, 36), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, grid._tensor)
        return out

    expected = np.full((4, 6, 6), 3, np.float32)
    expected[:, [3, 5]] = 5
    assert np.array_equal(nkisim.run(kernel, np.zeros((1, 1), np.float32)).outputs,
                          expected.reshape(4, 36))


def test_blocks_keep_the_order_of_the_tiles():
    def kernel(x):
        blocks = nl.alloc_blocks(tile_shape=(4, 6), block_shape=(2, 2), element_shape=(8, 18),
                                 buffer=nl.sbuf, dtype=nl.float32)
        assert blocks.shape == (1, 2) and blocks.block_shape == (2, 2)
        assert blocks.index_step_elements == (8, 12)
        assert nl.tiles(blocks).shape == (2, 3) and nl.tiles(blocks[0, 1]).shape == (2, 1)
        assert blocks[0, 1].is_remainder and not blocks[0, 0].is_remainder
        nisa.memset(blocks._tensor, 0)
        inner = nl.tiles(blocks[0, 1])
        nisa.memset(inner[1, 0].data, 7)
        out = nl.ndarray((4, 36), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, blocks._tensor)
        return out

    expected = np.zeros((4, 6, 6), np.float32)
    expected[:, 5] = 7
    assert np.array_equal(nkisim.run(kernel, np.zeros((1, 1), np.float32)).outputs,
                          expected.reshape(4, 36))


# ---- empty_like --------------------------------------------------------------------------------
@pytest.mark.parametrize("shape, axes", [((24, 64), (1, 0)), ((16, 3, 32), (2, 1, 0)),
                                         ((16, 2, 3, 32), (3, 1, 2, 0))])
def test_empty_like_prepares_the_destination_of_a_transpose(shape, axes):
    def kernel(x):
        made = nl.empty_like(x, buffer=nl.sbuf, transpose_axes=axes)
        assert made.shape == tuple(shape[a] for a in axes)
        nisa.dma_transpose(made, x)
        out = nl.ndarray(made.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, made)
        return out

    x = np.arange(np.prod(shape), dtype=np.float16).reshape(shape)
    assert np.array_equal(nkisim.run(kernel, x).outputs, x.transpose(axes))


def test_empty_like_transposes_the_tiles_of_a_grid():
    def kernel(x):
        grid = nl.tiles(x, tile_shape=(16, 32))
        made = nl.empty_like(grid, buffer=nl.sbuf, transpose_axes=(1, 0))
        assert (made.shape, made.tile_shape, made.element_shape) == ((3, 2), (32, 16), (80, 32))
        out = nl.ndarray((80, 32), x.dtype, nl.shared_hbm)
        to = nl.tiles(out, tile_shape=(32, 16))
        for i, j in np.ndindex(2, 3):
            nisa.dma_transpose(made[j, i].data, grid[i, j].data)
            nisa.dma_copy(to[j, i].data, made[j, i].data)
        return out

    x = np.random.default_rng(0).random((32, 80)).astype(np.float16)
    assert np.array_equal(nkisim.run(kernel, x).outputs, x.T)


# ---- refusals ------------------------------------------------------------------------------------
X = np.zeros((16, 48), np.float32)
REFUSED = {
    "no tuple": (lambda x: nl.tiles(x, tile_shape=[4, 4]), TypeError, "a tuple of integers"),
    "no integer": (lambda x: nl.tiles(x, tile_shape=(4, 4.0)), TypeError, "a tuple of integers"),
    "a bool": (lambda x: nl.tiles(x, tile_shape=(4, True)), TypeError, "a tuple of integers"),
    "zero": (lambda x: nl.tiles(x, tile_shape=(0, 4)), ValueError, "positive sizes"),
    "one dimension": (lambda x: nl.tiles(x, tile_shape=(4,)), ValueError, "rank 2 to 2"),
    "too many": (lambda x: nl.tiles(x, tile_shape=(4, 4, 4)), ValueError, "rank 2 to 2"),
    "block rank": (lambda x: nl.blocks(x, tile_shape=(4, 4), block_shape=(2,)), ValueError,
                   "rank 2, as tile_shape"),
    "no tiles": (lambda x: nl.blocks(x, block_shape=(2, 2)), ValueError, "tile_shape is missing"),
    "step": (lambda x: nl.tiles(x, tile_shape=(4, 4))[::-1], ValueError, "a positive integer"),
    "empty": (lambda x: nl.tiles(x, tile_shape=(4, 4))[2:2], IndexError, "at least one"),
    "outside": (lambda x: nl.tiles(x, tile_shape=(4, 4))[4], IndexError, "0 to 3"),
    "coordinates": (lambda x: nl.tiles(x, tile_shape=(4, 4))[0, 0, 0], IndexError, "at most 2"),
    "buffer": (lambda x: nl.alloc_tiles(tile_shape=(4, 4), element_shape=(8, 8), buffer="sbuf",
                                        dtype=nl.float32), TypeError, "a MemoryRegion"),
    "axes": (lambda x: nl.empty_like(x, buffer=nl.sbuf, transpose_axes=(0, 1)), ValueError,
             r"\(1, 0\) for 2"),
    "transposed in HBM": (lambda x: nl.empty_like(x, transpose_axes=(1, 0)), ValueError, "nl.sbuf"),
    "built": (lambda x: nl.NkiTileGrid(), TypeError, "made by nl.tiles"),
    "iterated": (lambda x: list(nl.tiles(x, tile_shape=(4, 4))), TypeError, "is iterated"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_grid_is_refused_by_name(name):
    call, kind, said = REFUSED[name]
    with pytest.raises(kind, match=said):
        nkisim.run(lambda x: call(x), X)


def test_too_many_partitions_after_a_transpose():
    with pytest.raises(ValueError, match="at most 128"):
        nkisim.run(lambda x: nl.empty_like(x, buffer=nl.sbuf, transpose_axes=(1, 0)),
                   np.zeros((8, 129), np.float16))


def test_grids_of_tiles_and_of_blocks_are_grids():
    def kernel(x):
        tiles, blocks = nl.tiles(x, tile_shape=(4, 4)), nl.blocks(x, tile_shape=(4, 4), block_shape=(1, 2))
        assert isinstance(tiles, nl.NkiTileGrid) and isinstance(blocks, nl.NkiBlockGrid)
        assert isinstance(tiles, nl.NkiGrid) and isinstance(blocks, nl.NkiGrid)
        assert isinstance(tiles[0], nl.NkiTileGrid) and isinstance(blocks[0], nl.NkiBlockGrid)
        assert not isinstance(x, nl.NkiGrid)
        out, tile = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    nkisim.run(kernel, X)
