"""Tests the changes that SDK 2.33 made to functions that earlier releases had."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import nkisim
from kernels import computed

nkisim.install()

import nki.collectives as ncc  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
import neuronxcc.nki  # noqa: E402
import neuronxcc.nki.language as old  # noqa: E402


def new(*shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


X = np.random.default_rng(5).integers(-9, 9, (32, 16)).astype(np.float32)


@pytest.mark.parametrize("engine", ["scalar", "gpsimd"])
@pytest.mark.parametrize("function", ["activation", "activate2"])
def test_functions_are_applied_by_either_engine(function, engine):
    def body(t):
        o = new(*t.shape)
        more = {} if function == "activation" else {"imm0": 2.0, "imm1": 1.0, "op0": nl.multiply, "op1": nl.add}
        getattr(nisa, function)(o, nl.relu, t, engine=getattr(nisa.engine, engine), **more)
        return o

    want = np.maximum(X if function == "activation" else 2 * X + 1, 0)
    assert np.array_equal(computed(body, X, target="trn3"), want)


def test_a_sum_needs_the_scalar_engine():
    def body(t):
        r = new(32, 1)
        nisa.activation(t, nl.copy, t, reduce_op=nl.add, reduce_res=r, reduce_cmd=nisa.reduce_cmd.reset_reduce,
                        engine=nisa.engine.gpsimd)
        return r

    with pytest.raises(nkisim.Error, match="gpsimd with a reduction; scalar"):
        computed(body, X, target="trn3")


#: (call with the operand that has too many free dimensions, the most of them), by the pages.
RANKS = {
    "memset dst": (lambda t: nisa.memset(t, 1.0), 4),
    "max8 src": (lambda t: nisa.max8(new(32, 8), t), 4),
    "max8 dst": (lambda t: nisa.max8(t, new(32, 16)), 2),
    "bn_aggr data": (lambda t: nisa.bn_aggr(new(32, 2), t), 4),
    "bn_aggr dst": (lambda t: nisa.bn_aggr(t, new(32, 6)), 2),
    "reciprocal data": (lambda t: nisa.reciprocal(new(32, t.size // 32), t), 4),
    "reciprocal dst": (lambda t: nisa.reciprocal(t, new(32, t.size // 32)), 4),
    "exponential src": (lambda t: nisa.exponential(new(32, t.size // 32), t), 3),
    "exponential dst": (lambda t: nisa.exponential(t, new(32, t.size // 32)), 3),
    "tensor_partition_reduce data": (lambda t: nisa.tensor_partition_reduce(new(1, t.size // 32), nl.add, t), 4),
    "tensor_partition_reduce dst": (lambda t: nisa.tensor_partition_reduce(t, nl.add, new(32, t.size)), 4),
    "tensor_scalar_reduce data": (lambda t: nisa.tensor_scalar_reduce(
        new(32, t.size // 32), t, nl.add, 1.0, nl.add, new(32, 1)), 3),
    "tensor_scalar_reduce dst": (lambda t: nisa.tensor_scalar_reduce(
        t, new(32, t.size // 32), nl.add, 1.0, nl.add, new(32, 1)), 3),
    "tensor_copy_predicated dst": (lambda t: nisa.tensor_copy_predicated(
        t, 1.0, new(32, t.size // 32, dtype=nl.uint8)), 3),
    "tensor_copy_predicated src": (lambda t: nisa.tensor_copy_predicated(
        new(32, t.size // 32), t, new(32, t.size // 32, dtype=nl.uint8)), 3),
}


def _shape(case, free):
    if case == "tensor_partition_reduce dst":
        return (1, *[2] * free)
    sizes = {"max8 dst": (8,), "bn_aggr dst": (2,), "bn_aggr data": (3,)}.get(case, (8,))
    return (32, *[1] * (free - 1), *sizes)


def _record(call, shape):
    def kernel(x):
        call(new(*shape))
        return x

    nkisim.run(kernel, X, target="trn3", timing=False, allow_unwritten=True)


@pytest.mark.parametrize("case", RANKS)
def test_free_dimensions_are_limited(case, monkeypatch):
    call, most = RANKS[case]
    for free in range(1, 7):
        if free <= most:
            _record(call, _shape(case, free))
        else:
            with pytest.raises(nkisim.Error, match=f"at most {most} free dimensions") as error:
                _record(call, _shape(case, free))
            assert error.value.rule == "operand_rank"
    monkeypatch.setenv("NKISIM_SDK", "2.32")  # whose pages do not say it
    _record(call, _shape(case, most + 1))


def test_the_older_api_has_no_such_limits():
    def kernel(x):
        out = old.ndarray(x.shape, x.dtype, buffer=old.shared_hbm)
        old.store(out, old.zeros((old.par_dim(32), 2, 2, 2, 2, 1), x.dtype, buffer=old.sbuf))
        return out

    deep = X.reshape(32, 2, 2, 2, 2, 1)
    assert not nkisim.run(kernel, deep, legacy=True, timing=False).outputs.any()


@pytest.mark.parametrize("op, fold", [("add", np.sum), ("maximum", np.max), ("minimum", np.min), (None, np.sum)])
def test_scalar_tensor_tensor_reduces(op, fold):
    def body(t):
        o, r = new(*t.shape), new(32, 1)
        nisa.scalar_tensor_tensor(o, t, nl.multiply, 2.0, nl.add, t, reduce_res=r,
                                  **({"reduce_op": getattr(nl, op)} if op else {}))
        return r

    assert np.array_equal(computed(body, X), fold(3 * X, axis=1, keepdims=True))


def test_results_of_topk_are_a_snake():
    x = np.random.default_rng(3).permutation(48).astype(np.float32).reshape(16, 3)
    k = 20

    def body(t):
        s, v, i = new(16, 3, dtype=nl.bfloat16), new(16, k, dtype=nl.bfloat16), new(16, k, dtype=nl.uint32)
        nisa.tensor_copy(s, t)
        nisa.memset(v, 0)
        nisa.memset(i, 99)
        nisa.topk(v, i, s, n=48, sorted=True)
        o = new(16, 2 * k)
        nisa.tensor_copy(o[:, :k], v)
        nisa.tensor_copy(o[:, k:], i)
        return o

    got = computed(body, x)
    snake = x.flatten(order="F")
    best = np.argsort(snake)[-k:]
    values, places = got[:, :k].flatten(order="F"), got[:, k:].flatten(order="F")
    assert np.array_equal(values[:k], snake[best]) and np.array_equal(places[:k], best)
    assert not values[k:].any() and (places[k:] == 99).all()


@pytest.mark.parametrize("op, operand, groups", [
    ("bitwise_and", 0, [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ("div", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ("mod", 4, [[0, 4], [1, 5], [2, 6], [3, 7]]),
])
def test_rank_lists_of_a_partition(op, operand, groups):
    made = ncc.ReplicaGroup.from_partition_op(8, getattr(ncc.rg_partition_op, op), operand)
    assert made == ncc.ReplicaGroup(groups) and repr(made) == f"ReplicaGroup({groups})"


@pytest.mark.parametrize("arguments", [(0, "div", 2), (8, "div", 0), (8, "mod", -1), (8, "bitwise_and", -1)])
def test_no_rank_lists_of_such_a_partition(arguments):
    size, op, operand = arguments
    with pytest.raises(nkisim.Error, match="a number of 1 or more"):
        ncc.ReplicaGroup.from_partition_op(size, getattr(ncc.rg_partition_op, op), operand)
    with pytest.raises(nkisim.Error, match="rg_partition_op"):
        ncc.ReplicaGroup.from_partition_op(8, "div", 2)


@pytest.mark.parametrize("operator", [nl.maximum, nl.multiply])
def test_activation_reduce_adds(operator):
    def body(t, by=nl.add):
        o, r = new(*t.shape), new(32, 1)
        nisa.activation_reduce(o, nl.relu, t, reduce_op=by, reduce_res=r)
        return r

    assert np.array_equal(computed(body, X), np.maximum(X, 0).sum(1, keepdims=True))
    with pytest.raises(nkisim.Error, match="reduce_op is .*; add .* is required"):
        computed(lambda t: body(t, operator), X)


def _reduced(x, op, buffer=nl.sbuf):
    """Both cores get `op` of what the two have."""
    me = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    mine, both = (nl.ndarray(x.shape[1:], x.dtype, buffer=buffer) for _ in "ab")
    nisa.dma_copy(mine, x[me])
    nisa.sendrecv_compute(mine, both, 1 - me, 1 - me, op)
    nisa.dma_copy(out[me], both)
    return out


@pytest.mark.parametrize("buffer", ["sbuf", "private_hbm"])
@pytest.mark.parametrize("op, fold", [("add", np.add), ("maximum", np.maximum), ("minimum", np.minimum)])
def test_two_cores_reduce_their_tiles(op, fold, buffer):
    x = np.random.default_rng(8).integers(-99, 99, (2, 16, 24)).astype(np.float32)
    run = [nkisim.run(_reduced, x, getattr(nl, op), getattr(nl, buffer), grid=2, timing=timing).outputs
           for timing in (True, False)]
    want = fold(x[0], x[1])
    assert all(np.array_equal(half, want) for out in run for half in out)


def test_a_reduction_of_two_cores_is_rounded_once():
    x = np.array([[[1.0, 256.0, 3.0]], [[0.00390625, 1.0, -3.0]]], np.float32).astype(ml_dtypes.bfloat16)
    got = nkisim.run(_reduced, x, nl.add, grid=2).outputs
    want = (x[0].astype(np.float32) + x[1].astype(np.float32)).astype(x.dtype)
    assert all(np.array_equal(half, want) for half in got)


@pytest.mark.parametrize("case", ["shared", "one core", "other operator"])
def test_a_reduction_of_two_cores_refuses(case):
    x = np.ones((2, 4, 4), np.float32)
    if case == "shared":
        with pytest.raises(nkisim.Error, match="src is in nl.shared_hbm; SBUF or nl.private_hbm is required"):
            nkisim.run(_reduced, x, nl.add, nl.shared_hbm, grid=2)
    elif case == "one core":
        with pytest.raises(nkisim.Error, match="in a program of one core; two cores"):
            nkisim.run(_reduced, x, nl.add)
    else:
        with pytest.raises(nkisim.Error, match="add, maximum or minimum is required"):
            nkisim.run(_reduced, x, nl.multiply, grid=2)


@pytest.mark.parametrize("shape", [[1], [1, 1]])
@pytest.mark.parametrize("dtype, want", [("int32", 7), ("uint8", 7), ("float8_e5m2_x4", None),
                                         ("float4_e2m1fn_x4", None)])
def test_a_register_is_stored_to_one_element(shape, dtype, want):
    def kernel(x):
        counter = nisa.register_alloc(7)
        result = nl.ndarray(shape, dtype=getattr(nl, dtype), buffer=nl.sbuf)
        nisa.register_store(result, counter)
        out = nl.ndarray((1, 1), dtype=getattr(nl, dtype), buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    if want is None:
        with pytest.raises(nkisim.Error, match="register_store: dst is float"):
            nkisim.run(kernel, X, target="trn3", timing=False)
    else:
        assert nkisim.run(kernel, X, target="trn3", timing=False).outputs == want


def test_ndarray_takes_an_offset_in_hbm_and_an_ellipsis():
    def kernel(x, place):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=...)
        assert nl.is_sbuf(tile.buffer)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, address=place)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    assert np.array_equal(nkisim.run(kernel, X, (4096,), timing=False).output, X)
    for wrong in ((), (0, 0, 0), "ab"):
        with pytest.raises(nkisim.Error, match="address is .*; \\(byte offset,\\) is required"):
            nkisim.run(kernel, X, wrong, timing=False)


def test_core_barrier_meets_no_one_on_a_core_alone():
    """At LNC 1 a kernel may have it, too."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        nisa.core_barrier(out, cores=(0, 1))
        return out

    assert np.array_equal(nkisim.run(kernel, X, timing=False).output, X)


def test_jit_takes_the_configurations_of_a_kernel():
    import nki
    from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

    @nki.jit(compile_config=CompileConfig(non_ssa_legalization=True, address_rotation=AddressRotation.DISABLE),
             specialization_config=SpecializationConfig(allow_nested_config_override=True))
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    assert np.array_equal(kernel(X), X)
    with pytest.raises(nkisim.Error, match="compile_config is .*; an nki.compiler.CompileConfig is required"):
        nki.jit(kernel.func, compile_config={"dead_code_elim": True})
    with pytest.raises(TypeError, match="dead_code"):
        CompileConfig(dead_code=True)


def test_tan_is_the_sine_over_the_cosine():
    """nl.tan's page of SDK 2.33: both come from the sine activation, so a pole is never met exactly."""
    x = np.linspace(-1.5707, 1.5707, 32 * 16).astype(np.float32).reshape(32, 16)
    exact = np.tan(x.astype(np.float64))
    assert (np.abs(computed(nl.tan, x) - exact) <= 1e-6 * (1 + exact**2)).all()

    def example(x):
        a = nl.full((128, 512), 0.0, dtype=nl.float32, buffer=nl.sbuf)
        b = nl.tan(a)
        expected = nl.full((128, 512), 0.0, dtype=nl.float32, buffer=nl.sbuf)
        assert nl.equal(b, expected)
        out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
        nl.store(out, b)
        return out

    assert (np.asarray(nkisim.run(example, x).output) == 0).all()


#: nl.mean's page of SDK 2.33, and of 2.32 and earlier: axes of a tile with three dimensions, since when.
AXES = {1: None, 2: 20, (1, 2): 20, (2,): 20, -1: 20, 0: 33, (0,): 33, (0, 1): None, (0, 2): None, (0, 1, 2): None}


@pytest.mark.parametrize("release", [29, 32, 33])
@pytest.mark.parametrize("axis", AXES)
def test_axes_of_reductions_are_those_of_the_page(axis, release, monkeypatch):
    def kernel(x):
        mean = nl.mean(nl.load(x), axis=axis)
        out = nl.ndarray(mean.shape, dtype=mean.dtype, buffer=nl.shared_hbm)
        nl.store(out, mean)
        return out

    x = np.random.default_rng(2).standard_normal((32, 3, 4)).astype(np.float32)
    monkeypatch.setenv("NKISIM_SDK", f"2.{release}")
    allowed = AXES[axis] is not None and AXES[axis] <= release
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = np.asarray(nkisim.run(kernel, x).output)
    texts = [str(w.message) for w in said if "dimension 0 alone" in str(w.message)]
    assert len(texts) == (not allowed), texts
    kept = np.mean(x.astype(np.float64), axis=axis)
    np.testing.assert_allclose(found.reshape(kept.shape), kept, rtol=1e-5, atol=1e-6)
    monkeypatch.setenv("NKISIM_STRICT", "1")
    if allowed:
        nkisim.run(kernel, x)
        return
    with pytest.raises(nkisim.Error, match="dimension 0 alone") as caught:
        nkisim.run(kernel, x)
    assert caught.value.rule == "sdk_refuses"


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_partition_dimension_stays(keepdims):
    x = np.arange(32 * 6, dtype=np.float32).reshape(32, 2, 3)
    found = computed(lambda t: nl.mean(t, axis=0, keepdims=keepdims), x)
    assert found.shape == (1, 2, 3) and np.array_equal(found[0], x.mean(axis=0))


def test_the_older_api_reduces_any_axes():
    """As AWS's average_pool2d does."""
    x = np.arange(32 * 2 * 3 * 4, dtype=np.float32).reshape(32, 2, 3, 4)

    def kernel(x):
        out = old.ndarray((32, 3), dtype=x.dtype, buffer=old.shared_hbm)
        old.store(out, old.sum(old.load(x), axis=[1, 3]))
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(neuronxcc.nki.jit(kernel)(x), x.sum(axis=(1, 3)))


@pytest.mark.parametrize("reduction", [nl.sum, nl.max, nl.var, nl.softmax])
def test_other_reductions_note_a_middle_axis_once(reduction):
    x = np.ones((4, 3, 5), np.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        computed(lambda t: reduction(t, axis=1), x)
    assert sum("dimension 0 alone" in str(w.message) for w in said) == 1
