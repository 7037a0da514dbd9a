"""Implements index tiles of neuronxcc.nki: nl.arange, nl.mgrid and masks, as exact affine
expressions.

An Expr is const + sum(coefficient * index of axis); axes are counted from the end, as NumPy
broadcasts. Subscripting a tensor with Exprs gives an access pattern, never a gather (subscripts.py).
"""

import numpy as np

from .. import _core
from .errors import KernelAttributeError, KernelIndexError, KernelTypeError, KernelValueError, fail, fail_on
from .unreadable import Unreadable
from .views import Views


_WHOLE = slice(None)


class Expr(Unreadable):
    """An affine index tile. Immutable: tiles that differ in `const` share the dictionaries, by which the
    extension module (binding/tiles) remembers what was made of them."""

    __slots__ = ("const", "coefs", "extents", "ndim", "row", "column")
    __array_ufunc__ = None
    _rule = "index_tile"
    _cures = {"a truth value": "it stands for many indices at once; a loop index (nl.affine_range, range), or mask= of "
                               "the call, is required",
              "a sequence": "for i in nl.affine_range(n), or range(n), is required for a loop, and .shape for its size",
              "a Python number": "a loop index (nl.affine_range, range) is a number",
              "": "an index tile stands for many indices at once"}

    def __init__(self, const, coefs, extents, ndim):
        self.const = const
        # axis from the end (1 = last) -> coefficient. An axis of one element, or of none, counts
        # for nothing: it is constant along what it is broadcast to.
        self.coefs = coefs
        for axis in coefs:
            if extents.get(axis, 1) == 1 or not coefs[axis]:
                self.coefs = {a: c for a, c in coefs.items() if c and extents.get(a, 1) != 1}
                break
        self.extents = extents  # axis from the end -> size
        self.ndim = ndim
        self.row = self.column = None  # of one dimension: [None, :] and [:, None]

    def _shifted(self, const):
        """This tile with another constant."""
        return _core.shifted(self, const)

    @property
    def shape(self):
        return tuple(self.extents.get(a, 1) for a in range(self.ndim, 0, -1))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        turned = "i[None, :] instead of i[:, None], of the one-dimensional nl.arange"
        cure = {"T": turned, "transpose": turned, "reshape": "i[:, None] or i[None, :]"}.get(
            name, "nisa.iota, which fills a tile with numbers,")
        fail("index_tile", f"an index tile has no {name}; {cure} is required", kind=KernelAttributeError)

    def __repr__(self):
        return f"<index tile {self.shape}>"

    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        if self.ndim == 1 and len(key) == 2:  # the forms that every kernel has
            if key[1] is None and key[0] == _WHOLE:
                if self.column is None:
                    self.column = self._select(key)
                return self.column
            if key[0] is None and key[1] == _WHOLE:
                if self.row is None:
                    self.row = self._select(key)
                return self.row
        return self._select(key)

    def __setitem__(self, key, value):
        fail("index_tile", "an index tile takes no values; nisa.iota, which makes a tile of its numbers, is required",
             kind=KernelTypeError)

    def _select(self, key):
        if Ellipsis in key:
            at = key.index(Ellipsis)
            given = sum(1 for k in key if k is not None and k is not Ellipsis)
            key = key[:at] + (slice(None),) * (self.ndim - given) + key[at + 1:]
        key = key + (slice(None),) * (self.ndim - sum(1 for k in key if k is not None))
        ndim = len(key)
        const, coefs, extents = self.const, {}, {}
        old = self.ndim
        for at, k in enumerate(key):
            if k is None:
                continue
            axis = ndim - at
            n, c = self.extents.get(old, 1), self.coefs.get(old, 0)
            if isinstance(k, slice):
                start, stop, step = k.indices(n)
                const += c * start
                count = len(range(start, stop, step))
                if count < 1:
                    fail("index_tile", "a slice of an index tile is empty", kind=KernelIndexError)
                extents[axis] = count
                if c:
                    coefs[axis] = c * step
            else:
                fail("index_tile", "index tiles take slices and None only", kind=KernelTypeError)
            old -= 1
        return Expr(const, coefs, extents, ndim)

    def _add(self, other, sign=1):
        if type(other) is int:
            return self._shifted(self.const + sign * other)
        if isinstance(other, Expr):
            coefs, extents = dict(self.coefs), dict(self.extents)
            for axis, n in other.extents.items():
                mine = extents.get(axis, 1)
                if mine != 1 and n != 1 and mine != n:
                    fail("index_tile_shape",
                         f"index tiles of shapes {self.shape} and {other.shape} do not broadcast",
                         kind=KernelValueError)
                extents[axis] = max(mine, n)
            for axis, c in other.coefs.items():
                coefs[axis] = coefs.get(axis, 0) + sign * c
            return Expr(self.const + sign * other.const, coefs, extents,
                        max(self.ndim, other.ndim))
        return self._shifted(self.const + sign * integer(other))

    def __add__(self, other):
        if type(other) is int:
            return _core.shifted(self, self.const + other)
        if isinstance(other, (Views, DynamicSum)):
            return (DynamicSum.of(other) if isinstance(other, Views) else other) + self
        return self._add(other)

    __radd__ = __add__

    def __sub__(self, other):
        if isinstance(other, (Views, DynamicSum)):
            return self + (DynamicSum.of(other) if isinstance(other, Views) else other) * -1
        return self._add(other, -1)

    def __rsub__(self, other):
        return (self * -1)._add(other)

    def __mul__(self, other):
        if isinstance(other, Expr):
            if not other.coefs:
                other = other.const
            elif not self.coefs:
                return other * self.const
            else:
                fail("index_tile", "a product of two index tiles is not affine", kind=KernelValueError)
        k = integer(other)
        return Expr(self.const * k, {a: c * k for a, c in self.coefs.items()}, self.extents,
                    self.ndim)

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __floordiv__(self, other):
        k = integer(other)
        if self.const % k == 0 and all(c % k == 0 for c in self.coefs.values()):
            return Expr(self.const // k, {a: c // k for a, c in self.coefs.items()}, self.extents,
                        self.ndim)
        low, high = self.range()
        if low // k == high // k:
            return Expr(low // k, {}, self.extents, self.ndim)
        fail("index_tile", f"an index tile divided by {k} is not affine", kind=KernelValueError)

    def __mod__(self, other):
        k = integer(other)
        low, high = self.range()
        if 0 <= low and high < k:
            return self
        if all(c % k == 0 for c in self.coefs.values()):
            return Expr(self.const % k, {}, self.extents, self.ndim)
        fail("index_tile", f"an index tile modulo {k} is not affine", kind=KernelValueError)

    def range(self):
        """Smallest and largest value."""
        low = high = self.const
        for axis, c in self.coefs.items():
            span = c * (self.extents.get(axis, 1) - 1)
            low, high = (low + span, high) if span < 0 else (low, high + span)
        return low, high

    def __lt__(self, other):
        return Mask([_expr(other) - self - 1])

    def __le__(self, other):
        return Mask([_expr(other) - self])

    def __gt__(self, other):
        return Mask([self - other - 1])

    def __ge__(self, other):
        return Mask([self - other])

    def __eq__(self, other):
        return Mask([self - other, _expr(other) - self])

    def __ne__(self, other):
        fail("index_tile", "!= of index tiles is not a box; use < and >=", kind=KernelValueError)

    __hash__ = Unreadable.__hash__  # which __eq__ would take away


def integer(value):
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        if isinstance(value, float) and value.isinteger():
            return int(value)
        fail_on("index_tile", "an index tile", f"combined with {value!r}", "an integer",
                kind=KernelTypeError)


def _expr(value):
    return value if isinstance(value, Expr) else Expr(integer(value), {}, {}, 0)


class Mask(Unreadable):
    """A conjunction of affine conditions, each an Expr that must be >= 0, and of alternatives."""

    __slots__ = ("terms", "either")
    _rule = "mask"
    _cures = {"a truth value": "it stands for many indices at once; mask= of the call is required, and & and | between "
                               "comparisons in parentheses (not `and`, `or`, `not` and a < b < c)",
              "": "a mask is an argument mask= or a predicate"}

    def __init__(self, terms, either=()):
        self.terms = list(terms)
        self.either = list(either)  # tuples of masks, one of which must hold

    def __repr__(self):
        return "a comparison of index tiles"

    def __getitem__(self, key):
        """The mask with other axes, as an index tile has them: mask[:, None]."""
        if len({t.ndim for t in self.terms}) > 1 or self.either:
            fail("mask", "a mask of index tiles of different dimensions is subscripted; the tiles themselves, "
                 "i[:, None] < n, are required", kind=KernelTypeError)
        return Mask([t[key] for t in self.terms])

    def __and__(self, other):
        if isinstance(other, (bool, np.bool_)):
            return self if other else Mask([Expr(-1, {}, {}, 0)])
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(self.terms + other.terms, self.either + other.either)

    __rand__ = __and__

    def __or__(self, other):
        if isinstance(other, (bool, np.bool_)):
            return Mask([]) if other else self
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask([], [(self, other)])

    __ror__ = __or__

    def __invert__(self):
        fail("mask",
             "~ of a mask; the opposite comparison is required (masks are comparisons of index "
             "tiles joined with &)", kind=KernelTypeError)

    def single(self):
        if len(self.terms) != 1 or self.either:
            fail("mask",
                 f"the predicate has {len(self.terms) + len(self.either)} conditions; one is "
                 "required", kind=KernelValueError)
        return self.terms[0]

    def box(self, shape, exact=True):
        """Per axis (start, stop) of the part of `shape` where the mask holds; None if empty.

        exact: the mask's own shape must broadcast to `shape`.
        """
        nd = len(shape)
        low, high = [0] * nd, list(shape)
        for term in self.terms:
            if not _cut_by(term, shape, low, high, exact):
                return None
        for masks in self.either:
            union = _union([m.box(shape, exact) for m in masks])
            if union is None:
                return None
            low = [max(a, b) for a, (b, _) in zip(low, union)]
            high = [min(a, b) for a, (_, b) in zip(high, union)]
        if any(a >= b for a, b in zip(low, high)):
            return None
        return list(zip(low, high))


def _cut_by(term, shape, low, high, exact):
    """Narrows the box [low, high) to where `term` >= 0; False if that is nowhere."""
    nd = len(shape)
    axes = []
    least = most = term.const
    for axis, c in term.coefs.items():
        at = nd - axis
        if exact and (at < 0 or shape[at] not in (1, term.extents[axis])):
            fail("mask",
                 f"a mask of index tiles of shape {term.shape} over a tile of shape {tuple(shape)}; "
                 "shapes that broadcast are required", kind=KernelValueError)
        if at < 0 or shape[at] == 1:
            continue
        axes.append((at, c))
        span = c * (shape[at] - 1)
        least, most = (least + span, most) if span < 0 else (least, most + span)
    if least >= 0:
        return True
    if most < 0:
        return False
    if len(axes) != 1:
        fail("mask",
             "a mask couples two index dimensions; each condition must bound one of them",
             kind=KernelValueError)
    at, c = axes[0]
    if c > 0:
        low[at] = max(low[at], -(term.const // c))
    else:
        high[at] = min(high[at], term.const // -c + 1)
    return True


def _union(boxes):
    """The union of two boxes, None where both are empty; it must be a box as well."""
    boxes = [b for b in boxes if b is not None]
    if len(boxes) < 2:
        return boxes[0] if boxes else None
    one, other = boxes
    differ = [d for d, (a, b) in enumerate(zip(one, other)) if a != b]
    for inner, outer in ((one, other), (other, one)):
        if all(a[0] >= b[0] and a[1] <= b[1] for a, b in zip(inner, outer)):
            return outer
    if len(differ) == 1:
        (a, b), (c, d) = one[differ[0]], other[differ[0]]
        if a <= d and c <= b:
            out = list(one)
            out[differ[0]] = (min(a, c), max(b, d))
            return out
    fail("mask",
         "the mask is | of conditions that together leave no box of the tile; a box, which one "
         "instruction can take, is required (documented: comparisons joined with &; write one call "
         "for each condition)",
         kind=KernelValueError)


def as_mask(mask):
    """None for a mask that is always true; one that never is for False."""
    if isinstance(mask, (bool, np.bool_)):
        return None if mask else Mask([Expr(-1, {}, {}, 0)])
    return mask


def box_of(mask, shape, exact=True):
    """Mask.box, also of a condition that Python has already decided."""
    if isinstance(mask, Mask):
        return mask.box(shape, exact)
    if not isinstance(mask, (bool, np.bool_)):
        fail_on("mask", "mask", type(mask).__name__, "a comparison of index tiles",
                kind=KernelTypeError)
    return [(0, n) for n in shape] if mask else None


class MGrid(Unreadable):
    """The value of nl.mgrid[a:b, c:d]: unpacks to index tiles, or .p .x .y .z .w."""

    __slots__ = ("tiles",)
    _rule = "index_tile"
    _cures = {"": "its index tiles are .p, .x, .y, .z and .w"}

    def __repr__(self):
        return f"<nl.mgrid of {len(self.tiles)} index tiles>"

    def __init__(self, tiles):
        self.tiles = tiles

    def __iter__(self):
        return iter(self.tiles)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, k):
        return self.tiles[k]

    def __getattr__(self, name):
        at = "pxyzw".find(name)
        if len(name) != 1 or at < 0 or at >= len(self.tiles):
            raise AttributeError(name)
        return self.tiles[at]


class _MGridMaker:
    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        bounds = tuple([(k.start or 0, k.stop, k.step or 1) for k in key])
        tiles = _grids.get(bounds)
        if tiles is None:
            n = len(key)
            tiles = _kept(_grids, bounds, [
                Expr(start, {n - at: step}, {n - at: len(range(start, stop, step))}, n)
                for at, (start, stop, step) in enumerate(bounds)])
        return MGrid(tiles)


mgrid = _MGridMaker()
_grids, _aranges = {}, {}  # what kernels ask for again and again
_MOST = 4096


def _kept(cache, key, value):
    if len(cache) >= _MOST:
        cache.clear()
    cache[key] = value
    return value


def arange(*args):
    """Indices start, start + step, ... below stop, to be combined and used as a subscript."""
    known = _aranges.get(args)
    if known is not None:
        return known
    r = range(*[integer(a) for a in args])
    if len(r) < 1:
        fail_on("empty_range", f"nl.arange{args}", "empty", "at least one index",
                kind=KernelValueError)
    return _kept(_aranges, args, Expr(r.start, {1: r.step}, {1: len(r)}, 1))


class DynamicSum(Unreadable):
    """An index tile plus `scale` times a run-time scalar (a one-element tensor)."""

    __slots__ = ("expr", "index", "scale")
    __array_ufunc__ = None
    _cures = {"": "it holds an index that exists only on the device"}

    def __repr__(self):
        return "an index tile plus a run-time value"

    def __init__(self, expr, index, scale=1):
        self.expr, self.index, self.scale = expr, index, scale

    @classmethod
    def of(cls, index):
        """The value of a one-element tensor."""
        if index.size != 1:
            fail_on("index_tile", "an index tile", f"combined with {index!r}",
                    "a tensor of one element", kind=KernelValueError)
        return cls(_expr(0), index)

    def _with(self, expr):
        return DynamicSum(expr, self.index, self.scale)

    def __add__(self, other):
        if isinstance(other, (DynamicSum, Views)):
            fail("index_sum",
                 "an index is the sum of two run-time values; add them in one tile first",
                 kind=KernelValueError)
        return self._with(self.expr + other)

    __radd__ = __add__

    def __sub__(self, other):
        return self._with(self.expr - other)

    def __rsub__(self, other):
        return (self * -1) + other

    def __mul__(self, other):
        return DynamicSum(self.expr * other, self.index, self.scale * integer(other))

    __rmul__ = __mul__
