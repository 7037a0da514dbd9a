"""Tests mistakes in kernels: each gives one clear error at the kernel's own line."""

import types

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.ones((128, 64), np.float32)


def check(body, *texts):
    """Runs `body(x, out)`; the error must name its line and contain `texts`."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        body(x, out)
        return out

    with pytest.raises(nkisim.Error) as caught:
        nkisim.run(kernel, X)
    error = caught.value
    assert error.kernel_file.endswith("test_errors.py"), error
    assert error.source, error
    for text in texts:
        assert text in str(error), error


def sbuf(rows=128, columns=64, dtype=nl.float32):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


@pytest.mark.parametrize("body, texts", [
    (lambda x, out: sbuf(200), ["199", "127"]),
    (lambda x, out: nisa.tensor_tensor(sbuf(), sbuf(), sbuf(128, 1), nl.add), ["data2", "128 x 1"]),
    (lambda x, out: nisa.tensor_tensor(x, sbuf(), sbuf(), nl.add), ["dst", "HBM", "SBUF"]),
    (lambda x, out: nisa.nc_matmul(sbuf(), sbuf(), sbuf()), ["dst", "PSUM"]),
    (lambda x, out: sbuf()[:, 0:65], ["0:65", "64"]),
    (lambda x, out: sbuf()[:, 64], ["64"]),
    (lambda x, out: sbuf()[0, 0, 0], ["3 indices"]),
    (lambda x, out: nisa.tensor_tensor(sbuf(), sbuf(), sbuf(), "nonsense"), ["op", "nonsense"]),
    (lambda x, out: nl.ndarray((128, 4), dtype="float77", buffer=nl.sbuf), ["float77"]),
    (lambda x, out: nl.ndarray((128, 4), dtype=nl.float32, buffer="lds"), ["lds"]),
    (lambda x, out: nisa.register_alloc() + 1, ["register"]),
    (lambda x, out: list(sbuf()), ["iterated"]),
    (lambda x, out: sbuf().reshape((64, 128)), ["partition"]),
    (lambda x, out: nisa.tensor_reduce(sbuf(128, 1), nl.add, sbuf(), axis=0), ["axis"]),
    (lambda x, out: nl.store(out, nl.exp(sbuf())), ["never written"]),
])
def test_one_error_at_the_line(body, texts):
    check(body, *texts)


def test_capacity_error_lists_the_largest_tensors():
    def body(x, out):
        tiles = [nl.ndarray((128, 20000), dtype=nl.float32, buffer=nl.sbuf, name=f"big{i}")
                 for i in range(4)]
        for t in tiles:
            nisa.memset(t, 0.0)
        for t in tiles[1:]:
            nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=t, op=nl.add)
        for t in tiles:
            nl.store(out, t[:, 0:64])
        nisa.tensor_tensor(dst=tiles[3], data1=tiles[3], data2=tiles[0], op=nl.add)
        nisa.tensor_tensor(dst=tiles[2], data1=tiles[1], data2=tiles[2], op=nl.add)

    check(body, "SBUF is full", "80000 bytes", "test_errors.py")


def test_nothing_returned_and_nothing_written():
    with pytest.raises(nkisim.Error, match="neither returns"):
        nkisim.run(lambda x: None, X)


def test_unknown_keyword_and_python_errors_keep_their_type():
    def unknown(x):
        nisa.tensor_copy(dst=sbuf(), src=sbuf(), colour=3)

    with pytest.raises(TypeError, match="colour"):
        nkisim.run(unknown, X)

    def broken(x):
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        nkisim.run(broken, X)
    assert "test_errors.py" in caught.value.__notes__[0]


def test_outside_a_kernel():
    with pytest.raises(nkisim.Error, match="outside a kernel"):
        nl.ndarray((1, 1), dtype=nl.float32)


def test_strict_refuses_decisions_on_values(monkeypatch):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if tile[0:1, 0:1] > 0.5:
            tile = nl.multiply(tile, 2.0)
        nl.store(out, tile)
        return out

    monkeypatch.setenv("NKISIM_STRICT", "1")
    with pytest.raises(nkisim.Error, match="truth of a tile") as caught:
        nkisim.run(kernel, X)
    assert caught.value.rule == "sdk_refuses" and caught.value.kernel_file.endswith("test_errors.py")


def test_what_aws_library_asks_compiles_under_strict(monkeypatch):
    """It asks whether a tile was given: `if scale:` with scale=None else."""
    def kernel(x):
        tile = nl.load(x)
        if tile:
            tile = nl.multiply(tile, 2.0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    monkeypatch.setenv("NKISIM_STRICT", "1")
    of_library = types.FunctionType(kernel.__code__, {**globals(), "__name__": "nkilib.core.mlp"}, "kernel")
    of_library.__module__ = "nkilib.core.mlp"
    assert np.array_equal(np.asarray(nkisim.run(of_library, X).output), 2 * X)
