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
