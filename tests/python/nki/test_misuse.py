"""Tests every argument of every function with wrong values: one error at the kernel's line that names the argument
and what is required, or the call is accepted, which values of no meaning for any parameter never are.
"""

import copy
import dataclasses
import itertools
import linecache
import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from api_calls import Lazy, f32, hbm, isa_calls, language_calls, make, psum, register, view_calls  # noqa: E402,I100
from legacy_calls import legacy_calls  # noqa: E402
from nkisim.record.dialect import NEURONXCC, NKI  # noqa: E402
from nkisim.run.options import Options  # noqa: E402
from nkisim.values.index import arange  # noqa: E402
from nkisim.run.recording import record  # noqa: E402

CALLS = [(f"{group}{i}", *call) for group, calls in (
    ("isa", isa_calls()), ("nl", language_calls()), ("view", view_calls()),
    ("legacy", legacy_calls()))
    for i, call in enumerate(calls)]
JUNK = {"none": None, "text": "abc", "fraction": 3.5, "nan": float("nan"), "negative": -1,
        "huge": 10 ** 12, "list": [], "numbers": (1, 2, 3), "object": object(), "dict": {"a": 1}, "empty": {},
        "function": lambda: 0, "array": np.ones((32, 64), np.float32), "operator": nl.bitwise_and,
        "engine": nisa.engine.gpsimd, "slice": slice(0, 4), "complex": 1j, "set": {1},
        "other shape": f32(16, 3), "three dimensions": f32(2, 3, 4), "hbm": hbm(32, 64),
        "psum": psum(32, 64), "register": register(),
        "index": Lazy(lambda: arange(32)[:, None]), "mask": Lazy(lambda: arange(32)[:, None] < 9)}


#: Kinds of values that no parameter takes in silence, but those of these names: a text is a name, and what a call
#: does not need is not read.
MEANINGLESS = {"text", "object", "dict", "function", "complex", "slice", "operator"}
UNREAD = {"name", "indirect_dim", "op", "op0", "op1", "reduce_op", "key", "fixed_sizes"}


def attempt(function, given, legacy=False):
    """The error of a kernel that makes one call, or None."""
    def kernel(x):
        values = {name: make(value) for name, value in given.items()}
        by_position = len(values) == 1 or 0 in values
        called = make(function)(*values.values()) if by_position else make(function)(**values)
        if hasattr(called, "__next__"):
            list(itertools.islice(called, 3))

    try:
        record(kernel, (np.zeros(1, np.float32),), {}, None, Options("trn2"),
               NEURONXCC if legacy else NKI)
    except nkisim.Error as problem:
        return problem
    return None


@pytest.mark.filterwarnings("ignore:overflow")  # nl.exp of a huge number is NumPy's
@pytest.mark.parametrize("name, function, given", CALLS, ids=[c[0] for c in CALLS])
def test_every_spoilt_argument_is_an_error_at_the_kernels_line(name, function, given):
    legacy = name.startswith("legacy")
    valid = attempt(function, given, legacy)
    assert valid is None, valid
    for name, (kind, junk) in itertools.product(given, JUNK.items()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem = attempt(function, {**given, name: junk}, legacy)
        if problem is None:
            silent = kind in MEANINGLESS and isinstance(name, str) and name not in UNREAD
            assert not silent or caught, (name, kind)
            continue
        assert problem.rule != "python_exception", (name, kind, str(problem))
        assert problem.code == "bad_input" and problem.kernel_file == __file__, (name, kind)
        assert linecache.getline(__file__, problem.kernel_line).strip() == problem.source
        assert "make(" in problem.source or "islice" in problem.source, (name, kind, str(problem))


def test_an_array_as_an_older_api_operand_is_found_when_its_result_is_placed():
    """Its result is of a dtype that is none of ours, which is found when that gets its place."""
    function, given = next(call[1:] for call in CALLS if call[0] == "legacy0")
    problem = attempt(function, {**given, "data": JUNK["array"]}, legacy=True)
    assert problem.kernel_file == __file__ and "data is an array (32, 64) of float32" in problem.message


def test_an_exception_inside_the_front_end_names_the_operands():
    problem = attempt(nl.rms_norm, dict(x=f32(8, 4), w=f32(8, 4), axis=1, n=0))
    assert problem.instruction == "rms_norm" and isinstance(problem, ValueError)
    assert "division by zero" in problem.message and "n=0, " in problem.message


def test_an_exception_of_the_kernels_own_stays_what_it_is():
    def kernel(x):
        def body(i):
            np.zeros(3).reshape(2, 2)

        nl.fori_loop(0, 2, body)

    with pytest.raises(ValueError, match="cannot reshape") as caught:
        nkisim.run(kernel, np.zeros(1, np.float32))
    assert not isinstance(caught.value, nkisim.Error)


@pytest.mark.parametrize("leave", ["if", "break"])
def test_a_register_in_if_and_a_while_that_is_left(leave):
    def kernel(x):
        count = nisa.register_alloc(2)
        if leave == "if":
            if count:
                nl.load(x)
        else:
            while count:
                break

    with pytest.raises(nkisim.Error, match="does not come back to its condition") as caught:
        nkisim.run(kernel, np.zeros((1, 1), np.float32))
    assert caught.value.source.endswith("count:")


@pytest.mark.parametrize("function, said", [
    (lambda t: t + np.ones((8, 4)), r"y is a NumPy array of shape \(8, 4\); a tile or a number"),
    (lambda t: nisa.tensor_scalar(t, t, nl.add, np.ones((8, 4))), r"operand0 is array\(\[\[1., 1.")])
def test_an_array_of_the_host_where_a_tile_belongs(function, said):
    def kernel(x):
        function(nl.load(x))

    with pytest.raises(nkisim.Error, match=said) as caught:
        nkisim.run(kernel, np.ones((8, 4), np.float32))
    assert "\n" not in caught.value.message


def test_numpy_called_with_a_tile_names_the_kernels_line():
    def kernel(x):
        np.max(nl.load(x))

    with pytest.raises(TypeError, match="np.max is called with .*nl.max") as caught:
        nkisim.run(kernel, np.ones((8, 4), np.float32))
    assert caught.value.kernel_file == __file__


def test_copies_of_what_holds_tensors_hold_the_same_ones():
    @dataclasses.dataclass
    class Tiles(nl.NKIObject):
        tile: object
        factor: float = 3.0

    def kernel(x):
        given = Tiles(nl.load(x))
        held = dataclasses.asdict(given)
        nisa.tensor_scalar(held["tile"], given.tile, nl.multiply, held["factor"])
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, copy.deepcopy(given).tile)
        return out

    assert (nkisim.run(kernel, np.ones((8, 4), np.float32)).outputs == 3).all()
