"""Tests that an error message in a run of several ranks names the rank."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.ones((128, 64), np.float32)


def added(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(y)))
    return out


def of_ranks(kernel, *inputs, **options):
    return nkisim.run(kernel, rank_inputs=list(inputs), ranks=len(inputs), **options)


def test_a_mistake_that_one_rank_makes_while_it_is_recorded():
    with pytest.raises(nkisim.KernelValueError, match="^add: rank 1: shapes .* do not broadcast") as caught:
        of_ranks(added, {"x": X, "y": X}, {"x": X, "y": X[:, :32]})
    assert caught.value.rule == "broadcast"


def test_an_exception_of_the_kernels_own():
    def kernel(x, n):
        return added(x, x[1 // n:])

    with pytest.raises(ZeroDivisionError) as caught:
        of_ranks(kernel, {"x": X, "n": 2}, {"x": X, "n": 0})
    assert "on rank 1" in caught.value.__notes__


def test_an_input_of_another_rank_that_does_not_fit():
    """Ranks 1 and 2 share rank 0's recording; their arrays come in later."""
    good, bad = np.ones((128, 64), np.int64), np.full((128, 64), 2 ** 31)
    with pytest.raises(nkisim.KernelValueError, match=r"y of rank 2 is an array of int64 with 2147483648 at \[0, 0\]"):
        of_ranks(added, *[{"x": good, "y": y} for y in (good.copy(), good.copy(), bad)])


@pytest.mark.parametrize("allowed", [False, True])
def test_a_race_between_the_cores_of_a_rank(allowed):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(out, nl.load(x))
        else:
            nisa.dma_copy(out[0:64], nl.load(out)[0:64])
        return out

    inputs = {"x": X}, {"x": X}
    if allowed:
        with pytest.warns(UserWarning, match="rank 0: .*race"):
            of_ranks(kernel, *inputs, grid=2, allow_races=True)
        return
    for call, rank in ((lambda: of_ranks(kernel, *inputs, grid=2), "rank 0: race"),
                       (lambda: nkisim.run(kernel, X, grid=2), "race")):
        with pytest.raises(nkisim.Error, match=f"{rank}.*NKISIM_ALLOW_RACES=1 makes it a warning") as caught:
            call()
        assert caught.value.rule == "unordered_accesses"


def test_an_exception_that_takes_no_notes_stays_itself():
    """As all are in Python 3.10."""
    class Plain(Exception):
        def __getattribute__(self, name):
            if name == "add_note":
                raise AttributeError(name)
            return super().__getattribute__(name)

    def kernel(x):
        raise Plain("of the kernel's own")

    with pytest.raises(Plain, match="of the kernel's own"):
        nkisim.run(kernel, np.ones((4, 4), np.float32), ranks=2)
