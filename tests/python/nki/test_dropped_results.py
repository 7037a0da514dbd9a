"""Tests that a result of nl's functions and operators that nothing reads is named by default, once."""

import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)


def _exp(t):
    r = nl.exp(t)  # noqa: F841


def _compared(t):
    assert nl.equal(t, t)


def _read(t):
    r = nl.exp(t)
    nisa.tensor_copy(dst=t, src=r)


def _placed(t):
    t[...] = nl.exp(t)


def _in_a_loop(t):
    for _ in range(3):
        nl.multiply(t, 2.0)


MEANT = {"looked at": lambda t: nl.exp(t).numpy(), "compared": _compared, "read": _read, "placed": _placed,
         "a view": lambda t: t.reshape((32, 4, 4)), "in place": lambda t: nisa.tensor_scalar(t, t, nl.add, 1.0)}
LOST = {"operator": lambda t: t + 1.0, "function": lambda t: nl.multiply(t, 2.0), "variable": _exp,
        "reduction": lambda t: nl.sum(t, axis=1), "loop": _in_a_loop, "two": lambda t: nl.exp(t + 1.0)}


def said(body, **options):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        body(tile)
        nl.store(out, tile)
        return out

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nkisim.run(kernel, X, **options)
    return [w for w in caught if "result_unread" in str(w.message)]


@pytest.mark.parametrize("name", LOST)
def test_a_result_that_nothing_reads_is_named_at_its_line(name):
    found = said(LOST[name])
    assert [str(w.message)[:41] for w in found] == ["nothing reads the result of this function"], found
    first = LOST[name].__code__.co_firstlineno
    assert found[0].filename == __file__ and first <= found[0].lineno <= first + 2


@pytest.mark.parametrize("name", MEANT)
def test_what_is_read_is_not_named(name):
    assert said(MEANT[name]) == []


def _fails(x):
    nl.load(x)
    kept = nl.load(x)
    nl.exp(kept)  # it might have been read
    nl.load(x[0:64])


@pytest.mark.parametrize("rules, lines", [({}, [1]), ({"suppress": ["result_unread"]}, []),
                                          ({"error": ["result_unread"]}, [1])])
def test_a_kernel_that_fails_names_the_loads_that_it_did_not_keep(rules, lines):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(nkisim.Error) as error:
            nkisim.run(_fails, X, rules=rules)
    assert error.value.kernel_line == _fails.__code__.co_firstlineno + 4
    assert [w.lineno - _fails.__code__.co_firstlineno for w in caught if "result_unread" in str(w.message)] == lines


def test_it_is_a_warning_of_result_unread():
    assert said(LOST["operator"], rules={"suppress": ["result_unread"]}) == []
    with pytest.raises(nkisim.Error, match="nothing reads the result") as caught:
        said(LOST["operator"], rules={"error": ["result_unread"]})
    assert caught.value.rule == "result_unread" and caught.value.kernel_file == __file__
    everything = said(LOST["operator"], rules={"unread": True})
    assert len(everything) == 1 and "tensor_scalar: nothing reads its result" in str(everything[0].message)
