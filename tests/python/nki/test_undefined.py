"""Tests reads of never-written (undefined) memory: harmless where the values are thrown away, else
an error (docs/values.md).
"""

import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as old  # noqa: E402
import neuronxcc.nki.language as onl  # noqa: E402
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.ones((128, 512), np.float32)


def output(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def tile(x, **more):
    return nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf, **more)


def error_text(kernel, *args, timing=True):
    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, *args, timing=timing)
    return str(caught.value)


@pytest.fixture(params=[True, False], ids=["timed", "values only"])
def timing(request):
    return request.param


def test_what_is_overwritten_does_no_harm(timing):
    """nki_simulator.rst: only what reaches an output matters."""
    def kernel(x):
        out, t = output(x), tile(x)
        nisa.dma_copy(dst=t[0:64, :], src=x[0:64, :])
        nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0)
        nisa.tensor_copy(t[64:128, :], t[0:64, :])
        nisa.dma_copy(dst=out, src=t)
        return out

    assert (nkisim.run(kernel, X, timing=timing).outputs == 2).all()


def half(x):
    out, t = output(x), tile(x, name="t")
    nisa.dma_copy(dst=t[0:64, :], src=x[0:64, :])
    nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=t)
    return out


def test_the_message_shows_the_way(timing):
    text = error_text(half, X, timing=timing)
    assert "is undefined in 32768 of 65536 elements, first at [64, 0]" in text
    assert "byte 0 of tensor t on partition 64 (allocated at " in text
    assert "which was never written; first used by tensor_scalar at " in text
    assert "then dma_copy at " in text


def test_nki_simulate_gives_nan_and_a_warning():
    """AWS's own test of a simulated kernel: np.any(np.isnan(result))."""
    with pytest.warns(UserWarning, match="is undefined in 32768 of 65536"):
        result = nki.simulate(nki.jit(half))(X)
    assert np.isnan(result[64:]).all() and (result[:64] == 2).all()


def test_integers_never_written_are_4_in_nki_simulate():
    def kernel(x):
        out, t = output(x), tile(x)
        nisa.dma_copy(dst=out, src=t)
        return out

    with pytest.warns(UserWarning, match="undefined"):
        assert (nki.simulate(nki.jit(kernel))(X.astype(np.int32)) == 4).all()


def test_switch_reads_zeros(timing):
    out = nkisim.run(half, X, timing=timing, allow_unwritten=True).outputs
    assert (out[:64] == 2).all() and (out[64:] == 1).all()


def half_stored(x):
    out = output(x)
    nisa.dma_copy(dst=out[0:64, :], src=nl.load(x)[0:64, :])
    return out


def test_output_not_stored(timing):
    text = error_text(output, X, timing=timing)
    assert "is undefined in 65536 of 65536 elements, first at [0, 0]" in text
    assert "never written" in text


@pytest.mark.parametrize("call", [nki.jit(half_stored), nki.simulate(nki.jit(half_stored)),
                                  lambda x: nkisim.run(half_stored, x).outputs,
                                  lambda x: nkisim.run(half_stored, x, ranks=2)[1].outputs])
def test_output_partly_stored(call, monkeypatch):
    """One rule for all ways to run a kernel: its caller may slice off what nothing wrote."""
    with pytest.warns(UserWarning, match="is undefined in 32768 of 65536 elements, first at .64, 0.*never written"):
        found = call(X)
    np.testing.assert_array_equal(found[:64], X[:64])
    assert np.isnan(found[64:]).all()


def test_output_partly_stored_names_its_switches(timing, monkeypatch):
    with pytest.warns(UserWarning, match="NKISIM_STRICT=1 makes it an error.*NKISIM_ALLOW_UNWRITTEN=1"):
        nkisim.run(half_stored, X, timing=timing)
    monkeypatch.setenv("NKISIM_ALLOW_UNWRITTEN", "1")
    assert (nkisim.run(half_stored, X, timing=timing).outputs[64:] == 0).all()
    monkeypatch.delenv("NKISIM_ALLOW_UNWRITTEN")
    monkeypatch.setenv("NKISIM_STRICT", "1")
    with pytest.raises(nkisim.Error, match="is undefined in 32768") as caught:
        nkisim.run(half_stored, X, timing=timing)
    assert caught.value.rule == "output_partly_written"


def test_a_tile_overwritten_at_its_address(timing):
    def kernel(x):
        out = output(x)
        a, b = tile(x, address=(0, 0), name="a"), tile(x, address=(0, 1024), name="b")
        nisa.dma_copy(dst=a, src=x)
        nisa.memset(dst=b, value=7.0)
        nisa.dma_copy(dst=out, src=a)
        return out

    text = error_text(kernel, X, timing=timing)
    assert "byte 1024 of tensor a on partition 0" in text
    assert "which tensor b at the same address overwrote (memset at " in text


def test_bytes_of_another_tile_are_undefined(timing):
    def kernel(x):
        out, a = output(x), tile(x, address=(0, 0))
        nisa.dma_copy(dst=a, src=x)
        b = tile(x, address=(0, 0), name="b")
        nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=b)
        return out

    assert "of tensor b on partition 0" in error_text(kernel, X, timing=timing)


def test_one_tile_after_the_other_at_one_address(timing):
    def kernel(x):
        out, a = output(x), tile(x, address=(0, 0))
        nisa.dma_copy(dst=a, src=x)
        nisa.dma_copy(dst=out[0:64, :], src=a[0:64, :])
        b = tile(x, address=(0, 0))
        nisa.memset(dst=b, value=7.0)
        nisa.dma_copy(dst=out[64:128, :], src=b[64:128, :])
        return out

    out = nkisim.run(kernel, X, timing=timing).outputs
    assert (out[:64] == 1).all() and (out[64:] == 7).all()


def test_register_never_set(timing):
    def kernel(x):
        out, t, r = output(x), nl.load(x), nisa.register_alloc()
        for _ in nl.dynamic_range(0, r):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nl.store(out, t)
        return out

    assert "was never set" in error_text(kernel, X, timing=timing)


def test_sendrecv_hands_over_what_is_undefined(timing):
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray((2, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = tile(x), tile(x)
        rows = 128 if core == 0 else 64
        nisa.dma_copy(dst=a[0:rows, :], src=x[0:rows, :])
        nisa.sendrecv(src=a, dst=b, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.dma_copy(dst=out[core], src=b)
        return out

    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, X, grid=2, timing=timing)
    text = str(caught.value)
    assert "is undefined in 32768 of 131072 elements, first at [0, 64, 0]" in text
    assert "first used by sendrecv at " in text


def scatter(y, index, values):
    w, v = nl.load(index), nl.load(values)
    nisa.dma_copy(dst=y.ap([[64, 4], [1, 64]], vector_offset=w, indirect_dim=0), src=v)
    return y


INDEX = np.array([[1], [1], [2], [3]], np.int32)
ROWS = np.arange(4, dtype=np.float32)[:, None] * np.ones((1, 64), np.float32)


def test_rows_that_a_scatter_writes_twice(timing):
    with pytest.warns(UserWarning, match="wrote twice with different values"):
        nkisim.run(scatter, np.zeros((8, 64), np.float32), INDEX, ROWS, timing=timing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the same values: the order does not matter
        nkisim.run(scatter, np.zeros((8, 64), np.float32), INDEX, np.ones_like(ROWS), timing=timing)


def test_sums_of_a_scatter_need_unique_indices(timing):
    def kernel(y, index, values):
        w, v = nl.load(index), nl.load(values)
        rows = y.ap([[64, 4], [1, 64]], vector_offset=w, indirect_dim=0)
        nisa.dma_compute(dst=rows, srcs=[rows, v], reduce_op=nl.add, unique_indices=True)
        return y

    text = error_text(kernel, np.zeros((8, 64), np.float32), INDEX, ROWS, timing=timing)
    assert "index 1 of tensor y is the same as index 0" in text
    unique = np.array([[1], [0], [2], [3]], np.int32)
    out = nkisim.run(kernel, np.zeros((8, 64), np.float32), unique, ROWS, timing=timing).outputs
    assert out[:4, 0].tolist() == [1, 0, 2, 3]


def test_negative_index_of_a_scatter(timing):
    text = error_text(scatter, np.zeros((8, 64), np.float32), INDEX - 2, ROWS, timing=timing)
    assert "index 0 of tensor y is -1" in text


def test_arguments_that_share_memory():
    def kernel(x, y):
        nisa.dma_copy(dst=y, src=nl.load(x))
        return y

    memory = np.zeros((129, 64), np.float32)
    with pytest.warns(UserWarning, match="arguments y and x share memory"):
        nkisim.run(kernel, memory[1:], memory[:-1], timing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nkisim.run(kernel, memory[:64], memory[64:128], timing=False)


def test_older_api_masks_leave_the_rest_undefined():
    @old.jit
    def kernel(x, rows):
        out = onl.ndarray((128, 512), dtype=x.dtype, buffer=onl.shared_hbm)
        i, j = onl.mgrid[0:128, 0:512]
        t = onl.exp(onl.load(x[i, j], mask=i < 64), mask=i < 64)
        onl.store(out[i, j], t, mask=i < rows)
        return out

    assert "is undefined in 32768" in error_text(kernel, X, 128)
    with pytest.warns(UserWarning, match="never written"):
        kernel(X, 64)
