"""Tests that host arrays with values that no device dtype holds are refused, wherever they come in."""

import json

import numpy as np
import pytest

import nkisim
from running import cli, python, write_trace

nkisim.install()

import neuronxcc.nki as legacy  # noqa: E402
import nki  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def array(value, dtype):
    found = np.ones((4, 3), dtype)
    found[2, 1] = value
    return found


REFUSED = [(2 ** 31, np.int64, "int32"), (-2 ** 31 - 1, np.int64, "int32"), (2 ** 32, np.uint64, "uint32"),
           (2 ** 64 - 1, np.uint64, "uint32"), (1e300, np.float64, "float32"), (-3.5e38, np.float64, "float32")]
TAKEN = [(2 ** 31 - 1, np.int64), (-2 ** 31, np.int64), (2 ** 32 - 1, np.uint64), (3.4e38, np.float64),
         (np.inf, np.float64), (np.nan, np.float64), (1e-300, np.float64), (0.1, np.float64)]


@pytest.mark.parametrize(("value", "dtype", "narrow"), REFUSED)
def test_a_value_that_does_not_fit(value, dtype, narrow):
    for call in (lambda x: nkisim.run(copy, x), copy, nki.simulate(copy),
                 lambda x: legacy.simulate_kernel(copy.func, x),
                 lambda x: nkisim.run(copy, rank_inputs=[{"x": x}, {"x": x}], ranks=2),
                 lambda x: nkisim.run(copy, x, timing="only")):
        with pytest.raises(nkisim.KernelValueError, match=f"x is an array of {np.dtype(dtype)} with .* at "
                           rf"\[2, 1\]; values that {narrow} can hold .* are required") as caught:
            call(array(value, dtype))
        assert caught.value.rule == "array_dtype"


@pytest.mark.parametrize(("value", "dtype"), TAKEN)
def test_a_value_that_fits(value, dtype):
    given = array(value, dtype)
    found = nkisim.run(copy, given, timing=False).outputs
    assert found.dtype.itemsize == 4
    np.testing.assert_array_equal(found, given.astype(found.dtype))


def test_a_constant_of_the_kernel():
    def kernel(x):
        nl.store(x, nl.load(nl.shared_constant(np.full((4, 3), 2 ** 40))))

    with pytest.raises(nkisim.KernelValueError, match="1099511627776 at .*0, 0.*values that int32"):
        nkisim.run(kernel, np.zeros((4, 3), np.int32))


def test_a_number_stored_where_no_memset_begins():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.int8, buffer=nl.shared_hbm)
        tile = nl.zeros(x.shape, dtype=nl.int8)
        tile[1:3] = 300
        nl.store(out, tile)
        return out

    with pytest.raises(nkisim.KernelValueError, match="value is 300; a number that int8 can hold exactly"):
        nkisim.run(kernel, np.zeros((4, 3), np.int8), legacy=True)


@pytest.mark.process
def test_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(nkisim.KernelValueError, match="9223372036854775807 at .*2, 1"):
        copy(torch.from_numpy(array(2 ** 63 - 1, np.int64)))
    assert copy(torch.from_numpy(array(7, np.int64))).sum() == 18


@pytest.mark.process
@pytest.mark.slow
def test_jax_with_64_bits(tmp_path):
    pytest.importorskip("jax", reason="JAX is not installed")
    script = tmp_path / "script.py"
    script.write_text("""
import jax, nkisim
jax.config.update("jax_enable_x64", True)
nkisim.install()
import nki, nki.language as nl
import jax.numpy as jnp
@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
try:
    copy(jnp.full((4, 3), 2 ** 40))
except nkisim.KernelValueError as problem:
    print(problem)
""")
    assert "1099511627776 at [0, 0]; values that int32" in python(script).stdout


@pytest.mark.process
@pytest.mark.parametrize(("value", "dtype", "narrow"), REFUSED)
def test_an_input_of_the_command_line(tmp_path, value, dtype, narrow):
    trace = write_trace(tmp_path / "copy.jsonl", [
        {"nisa": 1, "target": "trn2"},
        {"tensor": {"name": "x", "space": "hbm", "shape": [4, 3], "dtype": narrow, "role": "input"}},
        {"tensor": {"name": "y", "space": "hbm", "shape": [4, 3], "dtype": narrow, "role": "output"}},
        {"i": "dma_copy", "dst": "y", "src": "x"}])
    np.savez(tmp_path / "x.npz", x=array(value, dtype))
    done = cli("run", trace, "--inputs", tmp_path / "x.npz", "--json", code=None)
    assert done.returncode == 3
    problem = json.loads(done.stdout)["error"]
    assert problem["rule"] == "array_dtype" and "values that" in problem["message"]
