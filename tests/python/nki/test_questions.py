"""Tests Python operations that need a value of the device, such as `if x:`. Each is refused,
reported or documented.
"""

import math
import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki as old
from neuronxcc.nki import language as ol

import nkisim

X = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)

#: Device values by name, each made within a kernel of the API that has it.
NEW = {
    "HBM tensor": lambda x: x,
    "tile": lambda x: nl.load(x),
    "view": lambda x: nl.load(x)[0:32, 1:9],
    "register": lambda x: nisa.register_alloc(3),
    "scalar": lambda x: nisa.scalar_load(nl.load(x[0:1, 0:1], dtype=nl.int32)),
    "tile grid": lambda x: nl.tiles(x, tile_shape=(128, 128)),
    "pattern": lambda x: nl.load(x).ap([[512, 128], [1, 8]]),
    "PSUM tile": lambda x: nl.zeros((128, 8), dtype=nl.float32, buffer=nl.psum),
    "block grid": lambda x: nl.blocks(x, block_shape=(1, 1), tile_shape=(128, 128)),
    "comparison of tiles": lambda x: nl.load(x) > 3,
    "comparison of scalars": lambda x: nisa.scalar_load(nl.load(x[0:1, 0:1], dtype=nl.int32)) < 3,
    "dynamic loop's index": lambda x: next(iter(nl.dynamic_range(4))),
}
LEGACY = {
    "legacy tile": lambda x: ol.load(x),
    "index tile": lambda x: ol.arange(512)[None, :],
    "index expression": lambda x: ol.arange(512)[None, :] * 2 + 1,
    "grid of index tiles": lambda x: ol.mgrid[0:128, 0:512],
    "mask": lambda x: ol.arange(512)[None, :] < 300,
    "run-time index": lambda x: ol.arange(4)[None, :] + ol.load(x[0:1, 0:1]),
    "block tensor": lambda x: ol.zeros((2, ol.par_dim(128), 8), dtype=ol.float32, buffer=ol.sbuf),
}


def matched(value):
    match value:
        case 5:
            return 1
        case _:
            return 2


#: Questions by name.
PLACES = {
    "if": lambda v: 1 if v else 2,
    "not": lambda v: not v,
    "and": lambda v: v and 1,
    "or": lambda v: v or 1,
    "any": lambda v: any([v]),
    "all": lambda v: all([v]),
    "==": lambda v: bool(v == 5),
    "!=": lambda v: bool(v != 5),
    "<": lambda v: bool(v < 5),
    "chained <": lambda v: 0 <= v < 5,
    "min": lambda v: min(v, 50),
    "sorted": lambda v: sorted([v, 3]),
    "in": lambda v: 5 in v,
    "in a list": lambda v: v in [5, 6],
    "for": lambda v: [e for e in v],
    "unpack": lambda v: (lambda *a: a)(*v),
    "len": lambda v: len(v),
    "int": lambda v: int(v),
    "float": lambda v: float(v),
    "range": lambda v: range(v),
    "index": lambda v: [1, 2, 3][v],
    "round": lambda v: round(v),
    "bool": bool,
    "slice": lambda v: [1, 2, 3][:v],
    "repeat": lambda v: [0] * v,
    "root": math.sqrt,
    "format": lambda v: f"{v:d}",
    "remainder": lambda v: divmod(v, 2),
    "?:": lambda v: 1 if v > 3 else 2,
    "match": matched,
    "list": list,
    "shift": lambda v: 1 << v,
    "NumPy's root": np.sqrt,
}
SHAPE = "its first dimension"
#: Places with a meaning: what the answer is.
MEANT = {
    **{(v, "len"): SHAPE for v in ("HBM tensor", "tile", "view", "pattern", "PSUM tile", "comparison of tiles",
                                   "tile grid", "block grid", "legacy tile")},
    **{("grid of index tiles", p): "its index tiles" for p in ("for", "unpack", "len", "list")},
    # Arithmetic and comparisons of scalars are recorded; their result has no truth either.
    # `if tensor:` of one in HBM asks whether the argument was given, as AWS's library does.
    **{("HBM tensor", p): "whether there is one" for p in ("if", "not", "and", "or", "any", "all", "bool")},
}


def answers_of(value, place):
    """(errors or warnings as text, the answer) of a place's question."""
    made, apis = (NEW[value], (nki.jit, nl)) if value in NEW else (LEGACY[value], (old.jit, ol))
    answers = []

    def kernel(x):
        out = apis[1].ndarray(x.shape, dtype=x.dtype, buffer=apis[1].shared_hbm)
        answers.append(PLACES[place](made(x)))
        apis[1].store(out, apis[1].load(x))
        return out

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            apis[0](kernel)(X)
        except (nkisim.Error, TypeError) as error:  # of Python's own: an operator that the value does not have
            return [str(error)], None
    return [str(w.message) for w in caught if w.category is not DeprecationWarning], answers[0]


@pytest.mark.parametrize("value", [*NEW, *LEGACY])
@pytest.mark.parametrize("place", PLACES)
def test_no_question_is_answered_in_silence(value, place):
    said, answer = answers_of(value, place)
    if (value, place) in MEANT:
        assert answer is not None
    else:
        assert said, f"{place} of {value} gave {answer!r} without a word"


def test_what_has_a_meaning_has_that():
    assert answers_of("tile", "len")[1] == 128 and answers_of("tile grid", "len")[1] == 1
    assert answers_of("HBM tensor", "if")[1] == 1
    assert len(answers_of("grid of index tiles", "for")[1]) == 2


@pytest.mark.parametrize("value, place, cure", [
    ("mask", "and", "& and |"), ("mask", "chained <", "comparison"), ("mask", "if", "mask="),
    ("index tile", "for", "nl.affine_range(n), or range(n)"), ("index tile", "int", "loop index"),
    ("register", "==", "nisa.register_"), ("tile", "if", "nl.where"), ("tile grid", "if", "grid[i, j]"),
    ("tile", "in", "nl.equal"), ("block tensor", "for", "tensor[i]")])
def test_the_message_names_the_cure(value, place, cure):
    assert cure in answers_of(value, place)[0][0]


def test_an_array_of_a_tile_is_noted():
    PLACES["array"] = np.asarray
    try:
        said, answer = answers_of("tile", "array")
    finally:
        del PLACES["array"]
    assert len(said) == 1 and "tensor.numpy() to look at them" in said[0] and np.array_equal(answer, X)


@pytest.mark.parametrize("value", ["index tile", "mask", "register", "tile grid", "block tensor"])
def test_equality_with_none_is_identity(value):
    PLACES["none"] = lambda v: (v == None, v != None)  # noqa: E711
    try:
        said, answer = answers_of(value, "none")
    finally:
        del PLACES["none"]
    assert answer == (False, True) or said


def masked(x):
    """The second half of each row is 7; the first keeps x."""
    out = ol.ndarray((128, 512), dtype=x.dtype, buffer=ol.shared_hbm)
    p, f = ol.arange(128)[:, None], ol.arange(512)[None, :]
    ol.store(out, ol.load(x))
    ol.store(out[p, f], 7.0, mask=f >= 256)
    return out


def test_no_state_outlives_a_kernel():
    """After 200 kernels that end in an error at any place, a correct one gives the right bits."""
    values = [*NEW, *LEGACY]
    broken = [(v, p) for v in values for p in PLACES]
    picked = [broken[(k * 7919) % len(broken)] for k in range(200)]
    assert len(set(picked)) == 200
    wanted = X.copy()
    wanted[:, 256:] = 7
    for n, (value, place) in enumerate(picked):
        answers_of(value, place)
        if n % 20 == 19:
            assert np.array_equal(np.asarray(old.jit(masked)(X)), wanted), (value, place)


@pytest.mark.parametrize("step", range(6))
def test_a_kernel_that_breaks_anywhere_leaves_nothing(step):
    """An exception of the kernel's own after each of its statements: masks, sums, loops and stores are dropped."""
    def breaks(x):
        steps = iter(range(7))

        def on():
            if next(steps) == step:
                raise ZeroDivisionError
        out = ol.ndarray(x.shape, dtype=x.dtype, buffer=ol.shared_hbm)
        on()
        mask = ol.arange(512)[None, :] < 100
        on()
        t = ol.load(x)
        on()
        total = ol.zeros((128, 512), dtype=ol.float32, buffer=ol.psum)
        total += ol.matmul(t[:, 0:128], t)
        on()
        for _ in ol.affine_range(2):
            on()
            ol.store(out, t, mask=mask)
        on()
        return out

    with pytest.raises((ZeroDivisionError, nkisim.Error)):
        old.jit(breaks)(X)
    wanted = X.copy()
    wanted[:, 256:] = 7
    assert np.array_equal(np.asarray(old.jit(masked)(X)), wanted)
