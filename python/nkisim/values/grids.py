"""Implements grids of tiles and blocks (NKI 0.7): views of a tensor by tile coordinates, which move no data.

Per dimension of the source a grid has an axis: its cells in order, each a tuple of tiles, each tile
(first element, elements). A tile grid's cells have one tile, a block grid's up to block_shape of them.
Dimensions before the tiled ones are a prefix of slabs of one element.

Tensors on chip that alloc_tiles makes lie in a dense layout of rank two, tile after tile, each with the
space of a whole one; all others are slices of their source.
"""

from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail, fail_on
from .storage import product
from .tensor import NkiTensor
from .unreadable import Unreadable


class _Axis:
    """One dimension of the source: nominal tile (None: prefix), selected cells, whether it is indexed."""

    __slots__ = ("tile", "cells", "kept")

    def __init__(self, tile, cells, kept=True):
        self.tile, self.cells, self.kept = tile, cells, kept

    def tiles(self):
        return [tile for cell in self.cells for tile in cell]

    def elements(self):
        return sum(size for _, size in self.tiles())

    def runs(self):
        """The selection as (first, step, count) of one arithmetic progression, or None."""
        tiles = self.tiles()
        first, elements = tiles[0][0], self.elements()
        if all(a + n == b for (a, n), (b, _) in zip(tiles, tiles[1:])):
            return first, 1, elements
        steps = {b - a for (a, _), (b, _) in zip(tiles, tiles[1:])}
        if len(steps) == 1 and all(size == 1 for _, size in tiles):
            return first, steps.pop(), len(tiles)
        return None


def exact_shape(value, what, call):
    """A tuple of positive exact integers, as the pages ask for; TypeError and ValueError otherwise."""
    if type(value) is not tuple or any(type(n) is not int for n in value):
        fail_on("tensor_shape", what, repr(value), "a tuple of integers", call, KernelTypeError)
    if any(n < 1 for n in value):
        fail_on("tensor_shape", what, repr(value), "positive sizes", call, KernelValueError)
    return value


def check_tile(tile_shape, rank, call):
    exact_shape(tile_shape, "tile_shape", call)
    if not 2 <= len(tile_shape) <= rank:
        fail_on("tensor_shape", "tile_shape", f"{tile_shape} of rank {len(tile_shape)}",
                f"rank 2 to {rank}, that of the elements,", call, KernelValueError)


def axes_of(element_shape, tile_shape):
    """The axes of a whole tensor: a prefix of slabs, then tiles, of which the last may be smaller."""
    prefix = len(element_shape) - len(tile_shape)
    axes = [_Axis(None, tuple(((k, 1),) for k in range(n))) for n in element_shape[:prefix]]
    for n, tile in zip(element_shape[prefix:], tile_shape):
        axes.append(_Axis(tile, tuple(((at, min(tile, n - at)),) for at in range(0, n, tile))))
    return axes


class NkiGrid(Unreadable):
    """The value of nl.tiles and nl.blocks: a selection of a tensor's tiles or blocks, by coordinates."""

    _cures = {"": "it is indexed, grid[i, j], or read as one tensor, grid.data"}

    def __init__(self, tensor=None, axes=(), tile_shape=(), packed=None, **_):
        if tensor is None:
            fail("unsupported_call", f"{type(self).__name__} is made by nl.tiles or nl.blocks alone",
                 kind=KernelTypeError)
        self._tensor = tensor
        self._axes = list(axes)
        self._packed = packed  # None, or tiles along each axis of the allocation
        self._tile_shape = tile_shape

    def _like(self, axes):
        return type(self)(self._tensor, axes, self.tile_shape, self._packed)

    # ---- facts -------------------------------------------------------------------------------
    @property
    def tile_shape(self):
        """Source elements of one whole tile."""
        return self._tile_shape

    @property
    def shape(self):
        """Tiles or blocks (of a prefix: elements) along each coordinate."""
        return tuple(len(a.cells) for a in self._axes if a.kept)

    @property
    def element_shape(self):
        """Selected elements along each source dimension; a prefix that is indexed away is none
        (assumed: as a tensor in HBM loses the dimension of an index)."""
        return tuple(a.elements() for a in self._axes if a.kept or a.tile is not None)

    @property
    def index_step_elements(self):
        """Source elements from one coordinate to the next."""
        return tuple(a.cells[1][0][0] - a.cells[0][0][0] if len(a.cells) > 1 else self._cell(k)
                     for k, a in enumerate(self._axes) if a.kept)

    def _cell(self, k):
        """Nominal elements of a cell of axis `k`."""
        return self._axes[k].tile or 1

    def _tiles_per_cell(self, k):
        return 1

    @property
    def is_remainder(self):
        """True if the selection has a tile or block that its source's end cuts off."""
        return any(len(cell) < self._tiles_per_cell(k) or any(n < a.tile for _, n in cell)
                   for k, a in enumerate(self._axes) if a.tile is not None for cell in a.cells)

    @property
    def dtype(self):
        return self._tensor.dtype

    @property
    def buffer(self):
        return self._tensor.buffer

    @property
    def name(self):
        return self._tensor.name

    def __len__(self):
        return self.shape[0] if self.shape else 1

    def __iter__(self):
        fail("tensor_iterated", "a grid is iterated; index it by range(grid.shape[0])",
             kind=KernelTypeError)

    def __repr__(self):
        return (f"<{type(self).__name__} {self.shape} of {self.tile_shape} in "
                f"{self._tensor!r}>")

    # ---- selection ---------------------------------------------------------------------------
    def __getitem__(self, key):
        key = list(key) if type(key) is tuple else [key]
        open_axes = [k for k, a in enumerate(self._axes) if a.kept]
        if key.count(Ellipsis) == 1:
            at = key.index(Ellipsis)
            key[at:at + 1] = [slice(None)] * (len(open_axes) - len(key) + 1)
        if len(key) > len(open_axes):
            fail("view_shape", f"{len(key)} coordinates of {self!r}; at most {len(open_axes)} are "
                 "required", kind=KernelIndexError)
        axes = list(self._axes)
        for k, one in zip(open_axes, key):
            axes[k] = self._selected(axes[k], one)
        return self._like(axes)

    def _selected(self, axis, key):
        n = len(axis.cells)
        if type(key) is slice:
            if key.step is not None and (type(key.step) is not int or key.step < 1):
                fail_on("view_argument", "the step of a grid's slice", repr(key.step),
                        "a positive integer", kind=KernelValueError)
            cells = axis.cells[key]
            if not cells:
                fail_on("view_shape", "a grid's slice", f"{key.start}:{key.stop} of {n}",
                        "at least one coordinate", kind=KernelIndexError)
            return _Axis(axis.tile, cells)
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            fail_on("view_offset", "a grid's coordinate", type(key).__name__,
                    "an integer or a slice", kind=KernelTypeError)
        at = key.__index__()
        if not -n <= at < n:
            fail_on("view_shape", "a grid's coordinate", f"{at} of {n}", f"0 to {n - 1}",
                    kind=KernelIndexError)
        return _Axis(axis.tile, (axis.cells[at],), False)

    # ---- the selection as a tensor -------------------------------------------------------------
    @property
    def is_data_representable(self):
        """True if `data` can express the selection."""
        return self._data() is not None

    @property
    def data(self):
        """The whole selection as one tensor, in the order of its elements. Of several tiles along the
        partitions that alloc_tiles has laid one behind the other: (partitions, tiles, elements)."""
        found = self._data()
        if found is None:
            fail("view_shape", f"{self!r} selects tiles with gaps, or the cut-off end of tiles that lie "
                 "apart, which one access pattern cannot express; .data of one of them is required",
                 "data", KernelValueError)
        return found

    def _data(self):
        return self._slice() if self._packed is None else self._packed_data()

    def _slice(self):
        runs = [a.runs() for a in self._axes]
        if any(r is None for r in runs):
            return None
        key = []
        for axis, (first, step, count) in zip(self._axes, runs):
            if axis.tile is None and not axis.kept:
                key.append(first)
            else:
                key.append(slice(first, first + (count - 1) * step + 1, None if step == 1 else step))
        return self._tensor[tuple(key)]

    def _packed_data(self):
        """The data of tiles that lie one behind the other, each in the space of a whole one."""
        tiled = [(k, a) for k, a in enumerate(self._axes)]
        places = [[self._tile_number(k, a, t) for t in a.tiles()] for k, a in tiled]
        row = [t for t in self._axes if t.tile is not None]
        shapes = [sorted({n for _, n in a.tiles()}) for a in row]
        count = product(len(p) for p in places)
        if count == 1:
            return self._packed_tile([p[0] for p in places], [s[0] for s in shapes])
        if any(len(s) > 1 or s[0] != a.tile for s, a in zip(shapes, row)):
            return self._packed_cut(places, row)
        return self._packed_whole(places)

    def _tile_number(self, k, axis, tile):
        return tile[0] // (axis.tile or 1)

    def _packed_tile(self, numbers, sizes):
        """One tile, cut to its own extent."""
        view = self._region([(n, 1, 1) for n in numbers])[:, 0]
        return view[tuple(slice(0, n) for n in sizes)]

    def _region(self, steps):
        """(partitions, selected tiles..., elements of a tile) of regular steps, tiles as one dimension
        where they lie evenly; None where they do not."""
        numbers = [0]
        inner = 1
        for (first, step, n), total in reversed(list(zip(steps, self._packed))):
            numbers = [inner * (first + i * step) + rest for i in range(n) for rest in numbers]
            inner *= total
        gaps = {b - a for a, b in zip(numbers, numbers[1:])}
        if len(gaps) > 1:
            return None
        gap = gaps.pop() if gaps else 1
        tile = self.tile_shape
        whole = self._tensor.reshape((tile[0], product(self._packed)) + tile[1:])
        end = numbers[-1] + 1
        return whole[:, slice(numbers[0], end, None if gap == 1 else gap)]

    def _packed_whole(self, places):
        steps = [_progression(p) for p in places]
        if any(s is None for s in steps):
            return None
        view = self._region(steps)
        if view is None:
            return None
        across = len(places[len(places) - len(self.tile_shape)])  # tiles along the partitions
        flat = view.shape[1] * product(view.shape[2:])
        if len(self.tile_shape) > 2 or view.strides[1] != product(view.shape[2:]):
            return view  # (partitions, tiles, elements...)
        if across == 1:
            return view.reshape((view.shape[0], flat))
        return view.reshape((view.shape[0], across, flat // across))

    def _packed_cut(self, places, row):
        """A row of tiles of which the last is cut off in its only free dimension."""
        free = row[-1].tiles()
        cut_inside = any(n < row[-1].tile for _, n in free[:-1])
        if len(self.tile_shape) > 2 or any(len(p) > 1 for p in places[:-1]) or cut_inside:
            return None
        steps = [_progression(p) for p in places]
        view = None if any(s is None for s in steps) else self._region(steps)
        if view is None or (len(free) > 1 and view.strides[1] != row[-1].tile):
            return None
        rows, columns = row[0].tiles()[0][1], row[-1].elements()
        return view.reshape((view.shape[0], view.shape[1] * view.shape[2]))[:rows, :columns]


def _progression(numbers):
    gaps = {b - a for a, b in zip(numbers, numbers[1:])}
    return None if len(gaps) > 1 else (numbers[0], gaps.pop() if gaps else 1, len(numbers))


class NkiTileGrid(NkiGrid):
    """A tensor by tile coordinates; made by nl.tiles or nl.alloc_tiles."""


class NkiBlockGrid(NkiGrid):
    """A tensor by coordinates of blocks of tiles; made by nl.blocks or nl.alloc_blocks."""

    def __init__(self, tensor=None, axes=(), tile_shape=(), packed=None, block_shape=(), **_):
        super().__init__(tensor, axes, tile_shape, packed)
        self._block_shape = block_shape

    @property
    def block_shape(self):
        """Tiles of one whole block."""
        return self._block_shape

    def _like(self, axes):
        return NkiBlockGrid(self._tensor, axes, self.tile_shape, self._packed, self.block_shape)

    def _cell(self, k):
        axis = self._axes[k]
        return 1 if axis.tile is None else axis.tile * self._tiles_per_cell(k)

    def _tiles_per_cell(self, k):
        return self.block_shape[k - len(self._axes)]


# ---- made of tensors and of each other -----------------------------------------------------------
def tiles(source, *, tile_shape=None):
    """The tiles of a tensor or of a grid's selection, by coordinates; the last ones of a dimension end
    where it does. Nothing is copied."""
    if isinstance(source, NkiGrid):
        if tile_shape is None or tile_shape == source.tile_shape:
            axes = [_Axis(a.tile, tuple((t,) for t in a.tiles()), a.kept or a.tile is not None)
                    for a in source._axes]
            return NkiTileGrid(source._tensor, axes, source.tile_shape, source._packed)
        if source._packed is not None:
            fail_on("tensor_shape", "tile_shape", repr(tile_shape),
                    f"{source.tile_shape}, that of the allocation,", "tiles", KernelValueError)
        source = source.data
    if not isinstance(source, NkiTensor):
        fail_on("tensor_required", "source", type(source).__name__, "a tensor or a grid", "tiles",
                KernelTypeError)
    check_tile(tile_shape, len(source.shape), "tiles")
    if source.st.on_chip and len(tile_shape) != len(source.shape):
        fail_on("tensor_shape", "tile_shape", repr(tile_shape),
                f"rank {len(source.shape)}: a tensor on chip has no untiled dimensions, and one tile for "
                "each of its own", "tiles", KernelValueError)
    return NkiTileGrid(source, axes_of(source.shape, tile_shape), tile_shape)


def blocks(source, *, tile_shape=None, block_shape):
    """Blocks of `block_shape` tiles of a tensor or of a grid's selection, by coordinates."""
    if tile_shape is None and not isinstance(source, NkiGrid):
        fail("argument_missing", "tile_shape is missing; a tensor is not tiled yet", "blocks",
             KernelValueError)
    of = tiles(source, tile_shape=tile_shape)
    return _grouped(of, block_shape, "blocks")


def _grouped(of, block_shape, call):
    exact_shape(block_shape, "block_shape", call)
    if len(block_shape) != len(of.tile_shape):
        fail_on("tensor_shape", "block_shape", repr(block_shape),
                f"rank {len(of.tile_shape)}, as tile_shape,", call, KernelValueError)
    prefix = len(of._axes) - len(block_shape)
    axes = of._axes[:prefix]
    for axis, count in zip(of._axes[prefix:], block_shape):
        each = axis.tiles()
        axes.append(_Axis(axis.tile, tuple(tuple(each[i:i + count])
                                           for i in range(0, len(each), count))))
    return NkiBlockGrid(of._tensor, axes, of.tile_shape, of._packed, block_shape)


def alloc_tiles(allocate, tile_shape, element_shape, on_chip, call="alloc_tiles"):
    """A tile grid of its own storage; `allocate` makes a tensor of a shape. In HBM the elements lie as in
    any tensor, on chip tile behind tile."""
    exact_shape(element_shape, "element_shape", call)
    check_tile(tile_shape, len(element_shape), call)
    axes = axes_of(element_shape, tile_shape)
    if not on_chip:
        return NkiTileGrid(allocate(element_shape), axes, tile_shape)
    packed = tuple(len(a.cells) for a in axes)
    columns = product(packed) * product(tile_shape[1:])
    return NkiTileGrid(allocate((tile_shape[0], columns)), axes, tile_shape, packed)


def alloc_blocks(allocate, tile_shape, block_shape, element_shape, on_chip):
    """The same by blocks, which do not change where tiles lie."""
    of = alloc_tiles(allocate, tile_shape, element_shape, on_chip, "alloc_blocks")
    return _grouped(of, block_shape, "alloc_blocks")


#: Orders of dimensions that dma_transpose has.
TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def transposed(shape, axes, rank, call="empty_like"):
    """`shape`'s last `rank` dimensions in the order of a dma_transpose."""
    if type(axes) is not tuple or axes != TRANSPOSES.get(rank):
        fail_on("view_argument", "transpose_axes", repr(axes),
                f"{TRANSPOSES.get(rank)} for {rank} dimensions", call, KernelValueError)
    tail = shape[len(shape) - rank:]
    return shape[:len(shape) - rank] + tuple(tail[a] for a in axes)


def like(grid, allocate, axes, on_chip):
    """A grid of storage of its own with the geometry of a selection, whose gaps are left out."""
    elements = tuple(a.elements() for a in grid._axes)
    tile, rank = grid.tile_shape, len(grid.tile_shape)
    kept = [a.kept for a in grid._axes]
    block = getattr(grid, "block_shape", None)
    if axes is not None:
        elements, tile = transposed(elements, axes, rank), transposed(tile, axes, rank)
        kept = list(transposed(tuple(kept), axes, rank))
        block = None if block is None else transposed(block, axes, rank)
    made = alloc_tiles(allocate, tile, elements, on_chip, "empty_like")
    if block is not None:
        made = _grouped(made, block, "empty_like")
    return made[tuple(slice(None) if keep else 0 for keep in kept)]
