"""Tests that each surprise of a run (a lost gradient, float64 narrowed) is reported once."""

import warnings

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim

torch = pytest.importorskip("torch")


def kernel_of(body):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        body(x, t)
        nl.store(out, t)
        return out
    return kernel


def reported(call, times=2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            call()
    return [str(w.message) for w in caught if w.category is UserWarning]


def test_a_lost_gradient_is_reported_once():
    kernel = kernel_of(lambda x, t: None)
    weights = torch.ones(128, 64, requires_grad=True)
    with torch.no_grad():
        assert not reported(lambda: kernel(weights))
    assert not reported(lambda: kernel(weights.detach()))
    [said] = reported(lambda: kernel(weights))
    assert "nki_op" in said and "requires a gradient" in said


def test_float64_is_reported_once():
    kernel = kernel_of(lambda x, t: None)
    [said] = reported(lambda: kernel(np.ones((128, 64))))
    assert "argument x is float64" in said and "float32" in said
    assert not reported(lambda: kernel(np.ones((128, 64), np.float32)))


def test_a_text_for_a_buffer_is_reported_once(monkeypatch):
    monkeypatch.setattr("nkisim.values.storage._reported", set())
    kernel = kernel_of(lambda x, t: nl.ndarray((128, 4), nl.float32, buffer="hbm"))
    [said] = reported(lambda: kernel(np.ones((128, 64), np.float32)))
    assert "buffer='hbm'" in said and "nl.hbm" in said
    with pytest.raises(nkisim.Error, match="did you mean sbuf"):
        kernel_of(lambda x, t: nl.ndarray((128, 4), nl.float32, buffer="sbuff"))(np.ones((128, 64), np.float32))


def line_of(text):
    """The line of this file that ends in a mark."""
    lines = open(__file__, encoding="utf-8").read().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def warned(kernel):
    """(text, line) of the warnings of two calls."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            kernel(np.ones((128, 64), np.float32))
    assert all(w.filename == __file__ for w in caught)
    return [(str(w.message), w.lineno) for w in caught]


def test_results_that_the_device_has_not_are_reported_once():
    @nki.jit
    def private(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)  # private
        nl.store(out, nl.load(x))
        return out

    @nki.jit
    def with_a_number(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out, x.shape[0]  # number

    @nki.jit
    def its_argument(x):
        nl.load(x)
        return x  # argument

    [(said, line)] = warned(private)
    assert "not in nl.shared_hbm" in said and line == line_of("private")
    [(said, line)] = warned(with_a_number)
    assert "returns 128 (int)" in said and line == line_of("number")
    [_unused_tile, (said, line)] = warned(its_argument)
    assert "returns its argument x, which it does not write" in said and line == line_of("argument")
    assert not warned(kernel_of(lambda x, t: None))


def test_warnings_of_a_run_are_at_the_kernels_line():
    @nki.jit
    def half(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)  # half
        nl.store(out[:, 0:32], nl.load(x[:, 0:32]))
        return out

    @nki.jit
    def lost(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))  # lost
        nl.store(out, nl.load(x))
        return out

    [(said, line)] = warned(half)
    assert "4096 of 8192 elements" in said and line == line_of("half")
    assert "nl.store or nisa.dma_copy to all of it is required" in said
    [(said, line)] = warned(lost)
    assert "its result is lost" in said and line == line_of("lost")


def test_a_tile_of_an_earlier_call_is_an_error():
    """Its number would be another tensor's of this call."""
    kept = []

    @nki.jit
    def keeps(x):
        out, t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
        kept.append(t)
        nl.store(out, nl.add(kept[0], t))
        return out

    x = np.ones((128, 64), np.float32)
    assert np.array_equal(keeps(x), 2 * x)
    with pytest.raises(nkisim.Error, match="tensor t is of another call of a kernel") as problem:
        keeps(x)
    assert problem.value.rule == "outside_kernel" and problem.value.kernel_file == __file__


@pytest.mark.parametrize(("body", "says"), [
    (lambda t: nisa.tensor_copy(t, 0.0), "nisa.memset fills one with a number"),
    (lambda t: nisa.tensor_tensor(t, t, 2.0, nl.multiply), "nisa.tensor_scalar takes numbers"),
    (lambda t: nisa.tensor_scalar(t, t, nl.exp, 1.0), "nisa.activation applies it")])
def test_the_instruction_that_takes_it_is_named(body, says):
    with pytest.raises(nkisim.Error, match=says):
        kernel_of(lambda x, t: body(t))(np.ones((128, 64), np.float32))


WORDS = {
    "tiles": (lambda x, t: nl.tiles(x, (128, 128)),
              "2 arguments are given by place; tiles(source, *, tile_shape) is required: tile_shape= by name"),
    "blocks": (lambda x, t: nl.blocks(x, (128, 128), (1, 2)), "blocks(source, *, tile_shape, block_shape) is required"),
    "while_loop": (lambda x, t: nl.while_loop(lambda c: c < 4, lambda c: c + 1), "while_loop: init is a function"),
    "body": (lambda x, t: nl.fori_loop(0, 4, 3), "fori_loop: body_fun is int; a function of the loop's register"),
    "method": (lambda x, t: t.reshpe((128, 2, 256)), "NkiTensor has no reshpe; did you mean reshape?"),
    "grid": (lambda x, t: nl.tiles(x, tile_shape=(128, 128)).shap, "NkiTileGrid has no shap; did you mean shape?"),
    "function": (lambda x, t: nl.sqroot(t), "nki.language has no sqroot; did you mean sqrt?"),
}


@pytest.mark.parametrize("name", WORDS)
def test_what_is_wrong_with_a_call_is_reported(name):
    body, says = WORDS[name]
    with pytest.raises(nkisim.Error) as said:
        kernel_of(body)(np.ones((128, 512), np.float32))
    assert says in str(said.value) and said.value.kernel_file == __file__


assert nisa
