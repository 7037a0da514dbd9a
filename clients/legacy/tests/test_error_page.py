"""Tests AWS's page of errors of neuronxcc.nki (SDK 2.20 to 2.26): wrong forms are reported,
corrected ones not.
"""

import warnings
from typing import Optional

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
import neuronxcc.nki.typing as nt  # noqa: E402
from neuronxcc.nki.language import par_dim  # noqa: E402

X = np.random.default_rng(0).random((128, 512), np.float32)
ROWS = np.arange(8, dtype=np.int32)[:, None]


def out(like, name="", shape=None):
    """Unlike the page's callees it has no name of its own for AWS's rule: the tests of that one call nl.ndarray."""
    return nl.ndarray(shape or like.shape, dtype=like.dtype, buffer=nl.shared_hbm)


def sbuf(shape, dtype=nl.float32, value=1.0):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    tile[...] = value
    return tile


def kernel(body):
    """A kernel whose result is its argument, with a body between."""
    def made(x):
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(result, nl.load(x))
        body(x)
        return result

    return nki.jit(made)


def activated(**given):
    return kernel(lambda x: nisa.activation(op=nl.exp, data=nl.load(x), **{k: v() for k, v in given.items()}))


def column(dtype, shape=(128, 1)):
    return lambda: nisa.memset(shape, 1, dtype=dtype)


def indexed(make):
    return kernel(lambda x: nl.exp(make(sbuf((128, 4)))))


# ---- bodies with statements ------------------------------------------------------------------------
def truth(x, b: Optional[object] = None):
    ix, iy = nl.mgrid[0:128, 0:512]
    tile = nl.load(x[ix, iy])
    return not tile > 0


def item(x):
    _, i = nl.mgrid[0:1, 0:8]
    i[0, 5] = 1024


def decided_by_index(x):
    for j0 in nl.affine_range(2):
        j = j0 * 256 + nl.arange(256)[None, :]
        if j > 128:
            nl.load(x[0:1, 0:4])


def decided_by_value(x):
    if nl.load(x[0:1, 0:1]):
        nl.load(x)


@nki.jit
def annotated(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile: nt.tensor[128, 64] = nl.load(x)
    nl.store(o, tile)
    return o


@nki.jit
def annotated_right(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile: nt.tensor[128, 512] = nl.load(x)
    nl.store(o, tile)
    return o


def allocated(then, **given):
    """A body with an allocated tile and what comes `then`."""
    def body(x):
        data = nl.ndarray((par_dim(128), 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        data[...] = nl.load(x)
        then(data)

    return kernel(body)


@nki.jit
def immutable(x):
    nl.store(x, nl.load(x) + 1)
    return x


@nki.jit
def mutable(x: nt.mutable_tensor):
    nl.store(x, nl.load(x) + 1)
    return x


@nki.jit
def not_returned(x: nt.mutable_tensor):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(o, tile)
    nl.store(x, tile)
    return o


@nki.jit
def copied_by_rows(data, rows):
    o = nl.ndarray((8, 4), dtype=data.dtype, buffer=nl.shared_hbm)
    tile, at = nl.load(data[0:8, 0:32]), nl.load(rows)
    part = nl.ndarray((8, 4), dtype=data.dtype, buffer=nl.sbuf)
    iy, iz = nl.mgrid[0:8, 0:4]
    part[iy, iz] = tile[at, iz]
    nl.store(o, part)
    return o


@nki.jit
def transposed_by_rows(data, rows):
    at = nl.load(rows)
    turned = nl.load_transpose2d(data[at[nl.arange(8)[:, None], 0], nl.arange(128)[None, :]])
    o = nl.ndarray(turned.shape, dtype=data.dtype, buffer=nl.shared_hbm)
    nl.store(o, turned)
    return o


def by_rows(free):
    @nki.jit
    def loaded(data, rows):
        at = nl.load(rows)
        i, j = nl.arange(8)[:, None], nl.arange(4)[None, :]
        tile = nl.load(data[i, at[i, 0]] if free else data[at[i, 0], j])
        o = nl.ndarray(tile.shape, dtype=data.dtype, buffer=nl.shared_hbm)
        nl.store(o, tile)
        return o

    return loaded


@nki.jit
def out_of_scope(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tile = nl.load(x)
    nl.store(o, tile)
    return o


@nki.jit
def out_of_branches(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        if i < 2:
            tile = nl.load(x)
        else:
            tile = nl.load(x)
        nl.store(o, tile)
    return o


@nki.jit
def in_scope(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        if i < 2:
            tile[...] = nl.load(x)
        else:
            tile[...] = nl.load(x)
        nl.store(o, tile)
    return o


@nki.jit
def set_anew(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.zeros((par_dim(128), 512), dtype=np.float32)
    for i in nl.sequential_range(4):
        data = data + nl.load(x)
    nl.store(o, value=data)
    return o


@nki.jit
def set_in_place(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.zeros((par_dim(128), 512), dtype=np.float32)
    for i in nl.sequential_range(4):
        data[...] = data + nl.load(x)
    nl.store(o, value=data)
    return o


@nki.jit
def inner(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x))
    return o


@nki.jit
def nested_grid(x):
    return inner[2, 2](x)


@nki.jit
def nested_plain(x):
    return inner(x)


@nki.jit
def shared_in_loop(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x))
    for i in nl.affine_range(2):
        b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(b, nl.load(x))
    return o


@nki.jit
def shared_in_branch(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x))
    if nl.program_id(0) >= 0:
        b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(b, nl.load(x))
    return o


@nki.jit
def shared_in_callee(x):
    o = out(x)
    nl.store(o, nl.load(x))
    return o


def same_place(loop, index):
    @nki.jit
    def written(x):
        o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.ndarray((128, 4, 16), dtype=x.dtype, buffer=nl.sbuf)
        a[...] = 0
        for i in loop(4):
            a[:, index(i)] = 1
        nl.store(o, nl.load(x))
        return o

    return written


@nki.jit
def summed_products(x):
    o = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    sums = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range(4):
        sums += nl.matmul(nl.load(x[:, 0:128]), nl.load(x), transpose_x=True)
    nl.store(o, nl.copy(sums))
    return o


@nki.jit
def masked_by_remainder(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x))
    for i in range(8):
        nl.store(o[i:i + 1, 0:1], 0.0, mask=(i % 4) < 2)
    return o


@nki.jit
def masked_affine(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x))
    for i in range(8):
        for j in range(8):
            nl.store(o[i:i + 1, j:j + 1], 0.0, mask=(2 * i + 3 * j + 1) < 20)
    return o


@nki.jit
def never_written(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(128 // 129):
        nl.store(o, nl.load(x))
    return o


def beyond(mask):
    @nki.jit
    def filled(x):
        o = nl.ndarray((128, 500), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            tile = nl.mgrid[0:128, 0:256]
            how = {"mask": i * 256 + tile.x < 500} if mask else {}
            nl.store(o[tile.p, i * 256 + tile.x], value=0, **how)
        return o

    return filled


def assigned(wider, narrower):
    def body(x):
        a, b = sbuf((128, 64)), sbuf((128, 1))
        (b if narrower else a)[...] = a if narrower else b

    return kernel(body)


def blocks(x):
    nl.zeros((4, par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf)


def block_operand(x):
    nl.add(nl.zeros((4, par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf), 32)


#: error of the page: (what is refused, its cure or None, arguments)
CASES = {
    "err_1d_arange_not_supported": (
        indexed(lambda t: t[nl.arange(64), 0]), indexed(lambda t: t[nl.arange(64)[:, None], 0])),
    "err_1d_arange_not_supported, columns": (
        indexed(lambda t: t[0, nl.arange(4)]), indexed(lambda t: t[0, nl.arange(4)[None, :]])),
    "err_activation_bias_invalid_type": (activated(bias=column(np.int8)), activated(bias=column(nl.bfloat16))),
    "err_activation_scale_invalid_type": (activated(scale=column(np.float16)), activated(scale=column(np.float32))),
    "err_activation_scale_scalar_or_vector": (
        activated(scale=column(np.float32, (128, 512))), activated(scale=lambda: 1.2)),
    "err_ambiguous_tensor_truth_value": (kernel(truth), None),
    "err_annotation_shape_mismatch": (annotated, annotated_right),
    "err_bias_tensor_must_be_specified_in_allocation": (
        allocated(lambda data: nisa.activation(op=nl.exp, data=data)),
        allocated(lambda data: nisa.activation(op=nl.exp, data=data, bias=column(np.float32)()))),
    "err_cannot_assign_to_index": (kernel(item), None),
    "err_cannot_update_immutable_parameter": (immutable, mutable),
    "err_control_flow_condition_depending_on_arange": (kernel(decided_by_index), None),
    "err_copy_dynamic_indirect_indices_not_natively_supported": (copied_by_rows, None),
    "err_dynamic_control_flow_not_supported": (kernel(decided_by_value), None),
    "err_exceed_max_supported_dimension": (
        kernel(lambda x: nl.transpose(sbuf((64, 32, 2)))), kernel(lambda x: nl.transpose(sbuf((64, 64))))),
    "err_failed_to_infer_tile_from_local_tensor": (kernel(block_operand), None),
    "err_hbm_tensor_with_init_value_not_supported": (
        kernel(lambda x: nl.full((3, 128, 4), fill_value=1.0, dtype=nl.float32, buffer=nl.hbm)), None),
    "err_indirect_indices_are_not_supported_with_nki_api": (transposed_by_rows, None),
    "err_indirect_indices_free_dim": (by_rows(True), by_rows(False)),
    "err_leading_dimension_of_tensor_must_be_partition": (kernel(blocks), None),
    "err_local_variable_used_out_of_scope": (out_of_scope, in_scope),
    "err_local_variable_used_out_of_scope, branches": (out_of_branches, None),
    "err_local_variable_used_out_of_scope, set anew": (set_anew, set_in_place),
    "err_mutable_parameter_not_returned": (not_returned, mutable),
    "err_nested_kernel_with_spmd_grid": (nested_grid, nested_plain),
    "err_num_partition_exceed_arch_limit": (kernel(lambda x: sbuf((256, 4))), kernel(lambda x: sbuf((128, 4)))),
    "err_num_partition_mismatch": (
        kernel(lambda x: nisa.tensor_tensor(sbuf((128, 4)), sbuf((1, 4)), op=nl.add)),
        kernel(lambda x: nisa.tensor_tensor(sbuf((128, 4)), sbuf((1, 4)).broadcast_to((128, 4)), op=nl.add))),
    "err_shared_hbm_must_in_kernel_level, loop": (shared_in_loop, inner),
    "err_shared_hbm_must_in_kernel_level, branch": (shared_in_branch, None),
    "err_shared_hbm_must_in_kernel_level, callee": (shared_in_callee, None),
    "err_size_of_dimension_exceed_arch_limit": (
        kernel(lambda x: nl.transpose(sbuf((128, 512)))), kernel(lambda x: nl.transpose(sbuf((128, 128))))),
    "err_store_dst_shape_smaller_than_other_shape": (assigned(True, True), assigned(True, False)),
    "err_tensor_access_out_of_bound": (beyond(False), beyond(True)),
    "err_tensor_creation_on_scratchpad_with_init_value_not_supported": (
        kernel(lambda x: nl.full((128, 4), 1.0, nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))), None),
    "err_tensor_output_not_written_to": (never_written, None),
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel": (
        allocated(lambda data: nisa.nc_transpose(data[:, 0:128])),
        allocated(lambda data: nisa.nc_transpose(data[0:32, 0:32], engine=nisa.vector_engine))),
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel, matmul": (
        allocated(lambda data: nl.matmul(data[:, 0:128], data)),
        allocated(lambda data: nl.matmul(data[:, 0:128], data, transpose_x=True))),
    "err_unexpected_output_dependencies": (
        same_place(nl.affine_range, lambda i: 0), same_place(nl.affine_range, lambda i: i)),
    "err_unexpected_output_dependencies, in sequence": (None, same_place(nl.sequential_range, lambda i: 0)),
    "err_unexpected_output_dependencies, sums": (None, summed_products),
    "err_unsupported_expression_in_mask": (masked_by_remainder, masked_affine),
    "err_unsupported_memory": (kernel(lambda x: nl.exp(x)), kernel(lambda x: nl.exp(nl.load(x)))),
    "err_unsupported_memory, load": (kernel(lambda x: nl.load(sbuf((4, 4)))), None),
    "err_unsupported_mixing_basic_advanced_tensor_indexing": (
        indexed(lambda t: t[nl.arange(64)[:, None], :]),
        indexed(lambda t: t[nl.arange(64)[:, None], nl.arange(4)[None, :]])),
}
WITH_ROWS = {copied_by_rows, transposed_by_rows, *(CASES["err_indirect_indices_free_dim"])}


def reported(function):
    """The output of a run of a kernel: (notes of the page, the error that ends it or "")."""
    args = (X.copy(), ROWS) if function in WITH_ROWS else (X.copy(),)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            function(*args)
        except nkisim.Error as problem:
            return _notes(found), str(problem)
    return _notes(found), ""


def _notes(found):
    return [str(w.message) for w in found if "nki.errors" in str(w.message) or "truth of a tile" in str(w.message)]


@pytest.mark.parametrize("error", [name for name, (bad, _) in CASES.items() if bad])
def test_a_refusal_is_reported(error):
    notes, problem = reported(CASES[error][0])
    ours = [note for note in notes if error.split(",")[0] in note or "truth of a tile" in note]
    assert problem or ours
    assert problem or len(notes) == len(ours)


@pytest.mark.parametrize("error", [name for name, (bad, _) in CASES.items() if bad])
def test_a_refusal_is_an_error_with_strict(error, monkeypatch):
    """In SDK 2.26, the last whose page it is; block dimensions stay a note, as AWS's examples of it have them."""
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "2.26")
    notes, problem = reported(CASES[error][0])
    assert bool(problem) == (error != "err_leading_dimension_of_tensor_must_be_partition")
    assert problem or notes


@pytest.mark.parametrize("error, sdk", [
    ("err_activation_scale_invalid_type", "2.20"), ("err_unsupported_expression_in_mask", "2.25"),
    ("err_hbm_tensor_with_init_value_not_supported", "2.21"), ("err_mutable_parameter_not_returned", "2.24")])
def test_an_earlier_release_has_no_such_page(error, sdk, monkeypatch):
    monkeypatch.setenv("NKISIM_SDK", sdk)
    assert reported(CASES[error][0])[0] == []


@pytest.mark.parametrize("error", [name for name, (_, good) in CASES.items() if good])
@pytest.mark.parametrize("strict", ["0", "1"])
def test_its_cure_is_not(error, strict, monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", strict)
    monkeypatch.setenv("NKISIM_SDK", "2.26")
    assert reported(CASES[error][1]) == ([], "")


def test_every_error_of_the_page_has_a_case():
    """Two have none: no call is left that they are about (a while loop of neuronxcc.nki had scalar(...), which no
    page lists), and calls outside of kernels (test_misuse)."""
    assert len({name.split(",")[0] for name in CASES}) == 34
