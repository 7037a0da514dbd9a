"""Tests that NKISIM_STRICT=1 names each line that the NKI compiler would refuse, and nothing else."""

import functools
import pathlib
from enum import Enum

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from strict_findings import findings  # noqa: E402

HERE = pathlib.Path(__file__).resolve()
LINES = HERE.read_text().splitlines()


def copied(x):
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def clean(x, scale=1.0):
    class Shape(nl.NKIObject):
        rows: int = 0

    class Kind(Enum):
        A = 1

    sizes = [n for n in x.shape]
    sizes = [int(n) for n in sizes]
    numbers = [1, 2]
    numbers[0] = 3
    if scale == 1.0 and len(sizes) == 2:
        for _ in range(2):
            pass
    assert x.shape[0] <= 128 and scale is not None, f"{x.shape}"
    return copied(x)


def flagged_try(x):
    try:  # FLAG
        return copied(x)
    finally:
        pass


def flagged_lambda(x):
    f = lambda a: a + 1  # noqa: E731 FLAG
    f(1)
    return copied(x)


def flagged_is(x, flag=None):
    if flag is not None and flag is nl.add:  # FLAG
        flag = 1
    return copied(x)


def flagged_generator(x):
    sum(n for n in x.shape)  # FLAG
    return copied(x)


def flagged_kwargs(x, **more):  # FLAG
    return copied(x)


def flagged_keyword_only(x, *, flag=True):  # FLAG
    return copied(x)


def flagged_dictionary(x):
    table = {1: 2}  # FLAG
    return copied(x) if table else None


def flagged_key(x):
    table, _ = {}, 0
    table[0] = copied(x)  # FLAG
    return table[0]


def flagged_comprehension(x):
    tiles = [nl.ndarray((128, 4), x.dtype, nl.sbuf) for _ in range(2)]  # FLAG
    return copied(x) if tiles else None


def flagged_partial(x):
    called(functools.partial(filled, nl.load(x)))  # FLAG
    return copied(x)


def called(body):
    body(0)


def filled(tile, i):
    nisa.memset(tile, 1)


def flagged_buffer(x):
    nl.ndarray((128, 4), nl.float32, buffer="sbuf")  # FLAG
    return copied(x)


def flagged_class(x):
    class Plain:  # FLAG
        pass

    return copied(x)


def helper(x):
    with open(HERE):  # FLAG helper
        return copied(x)


def flagged_callee(x):
    return helper(x)


def flagged_list(x, sizes=()):  # FLAG
    return copied(x)


def flagged_output(x):
    out = nl.ndarray(x.shape, x.dtype, nl.hbm)  # FLAG
    nisa.dma_copy(out, copied(x))
    return out


def flagged_value(x):
    tile = nl.load(x)
    largest = nl.greater(tile, 0.0)
    if largest:  # FLAG
        pass
    return copied(x)


FLAGGED = [v for k, v in dict(globals()).items() if k.startswith("flagged_")]


def warned(function, monkeypatch, on="1", **arguments):
    """The lines of this file that the error of a run names."""
    monkeypatch.setenv("NKISIM_STRICT", on)
    monkeypatch.setenv("NKISIM_SDK", "2.32")  # the last whose compiler reads the source
    x = np.ones((128, 8), np.float32)
    found = findings(lambda: nki.jit(function)(x, **arguments))
    assert all(file == str(HERE) for file, _, _ in found)
    return [line for _, line, _ in found]


def flagged_line(function):
    first = function.__code__.co_firstlineno
    for n in range(first, len(LINES) + 1):
        if "FLAG" in LINES[n - 1]:
            return n
    for n in range(1, len(LINES) + 1):
        if "FLAG helper" in LINES[n - 1]:
            return n


@pytest.mark.parametrize("function", FLAGGED, ids=lambda f: f.__name__)
def test_the_line_is_named(function, monkeypatch):
    arguments = {"sizes": [1, 2]} if function is flagged_list else {}
    line = flagged_line(helper if function is flagged_callee else function)
    assert warned(function, monkeypatch, **arguments) == [line]


def test_supported_python_is_silent(monkeypatch):
    assert warned(clean, monkeypatch) == []


def test_off_by_default(monkeypatch):
    assert warned(flagged_try, monkeypatch, on="0") == []


def test_each_run_finds_it(monkeypatch):
    assert len(warned(flagged_try, monkeypatch)) == len(warned(flagged_try, monkeypatch)) == 1


def test_one_error_names_all_findings_and_each_once(monkeypatch):
    def kernel(x):
        for _ in range(2):
            nl.divide(nl.load(x), nl.load(x))
            table = {1: 2}
        return copied(x) if table else None

    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "2.32")
    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, np.ones((128, 8), np.float32))
    first = kernel.__code__.co_firstlineno
    assert [line - first for _, line, _ in caught.value.findings] == [3, 2]  # the source is read first
    assert caught.value.kernel_line == first + 3 and "dictionary key" in str(caught.value)
    assert f"{HERE}:{first + 2}: nl.divide is simulated alone" in str(caught.value)


def test_an_error_of_the_kernel_names_what_was_found_before_it(monkeypatch):
    def kernel(x):
        nl.divide(nl.load(x), nl.load(x))
        return nl.load(x[0:200])

    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "2.32")
    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, np.ones((128, 8), np.float32))
    assert caught.value.rule != "sdk_refuses" and "nl.divide is simulated alone" in str(caught.value)
