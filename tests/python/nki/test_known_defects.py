"""Tests that --strict reports known defects of AWS's compiler and device (record/defects.json), and
their workarounds.
"""

import pathlib
import re

import numpy as np
import pytest

import nkisim
from nkisim.record import defects
from strict_findings import findings

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

SDKS = ["2.28", "2.29", "2.30", "2.31", "2.32", "2.33"]
X = np.random.default_rng(1).random((128, 128), np.float32) + 1


def clean(x):
    out, tile = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


def findings_under_strict(monkeypatch, sdk, kernel, *args, **options):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    return [text for _, _, text in findings(lambda: nkisim.run(kernel, *args, **options))]

def nested(outer=1, inner=1):
    def body(i):
        nl.fori_loop(0, inner, lambda j: nisa.memset(nl.ndarray((1, 1), nl.float32, nl.sbuf), 0))

    def kernel(x):
        nl.fori_loop(0, outer, body)
        return clean(x)

    return kernel


def biased(function, bias=None):
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        column = nl.ndarray((x.shape[0], 1), nl.float32, nl.sbuf)
        nisa.memset(column, 1)
        nisa.activation(tile, function, tile, bias=column if bias is None else bias)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    return kernel


def far_from_chip(x):
    tile, at = nl.ndarray((8, 8), nl.float32, nl.sbuf), nl.ndarray((1, 1), nl.int32, nl.sbuf)
    nisa.memset(tile, 0)
    nisa.memset(at, 2)
    out = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
    nisa.dma_copy(out, tile.ap([[8, 4], [1, 4]], scalar_offset=at, indirect_dim=1))
    return out


def transposed(mode):
    """A gather by the software's descriptors next to a load, by the hardware's if `mode` says so."""
    def kernel(x):
        table, index = nl.ndarray((16, 128), nl.bfloat16, nl.private_hbm), nl.ndarray((16, 1), nl.uint32, nl.sbuf)
        rows, turned = nl.ndarray((16, 128), nl.bfloat16, nl.sbuf), nl.ndarray((128, 16), nl.bfloat16, nl.sbuf)
        nisa.memset(rows, 1)
        nisa.memset(index, 0)
        nisa.dma_copy(table, rows)
        nisa.dma_transpose(turned, table.ap([[128, 16], [1, 128]], vector_offset=index))
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x, dge_mode=mode)
        nisa.dma_copy(out, tile)
        return out

    return kernel


def at_register(memory="sbuf", variable=False):
    """An operand at an offset in a register, of a compute instruction or (hbm) of a DMA."""
    def kernel(x):
        out, t = nl.ndarray((8, 4), x.dtype, nl.shared_hbm), nl.ndarray((8, 8), x.dtype, nl.sbuf)
        part = nl.ndarray((8, 4), x.dtype, nl.sbuf)
        nisa.dma_copy(t, x[0:8, 0:8])

        def body(i):
            source = (x if memory == "hbm" else t).ap([[x.shape[1] if memory == "hbm" else 8, 8], [1, 4]],
                                                      scalar_offset=i, indirect_dim=1)
            (nisa.dma_copy if memory == "hbm" else nisa.tensor_copy)(part, source)

        if variable:
            nl.fori_loop(0, 1, body)
        else:
            body(nisa.register_alloc(2))
        nisa.dma_copy(out, part)
        return out

    return kernel


def doubled(engine):
    def kernel(x):
        out, t = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(t, x)
        nisa.tensor_tensor(t, t, t, nl.add, engine=engine)
        nisa.dma_copy(out, t)
        return out

    return kernel


def product(inside, writer="tensor"):
    """A loop that adds what an engine writes to a PSUM tile that is made in the loop's body, or before it."""
    def kernel(x):
        out, t = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        sums, older = nl.ndarray(x.shape, x.dtype, nl.sbuf), None if inside else nl.ndarray(x.shape, x.dtype, nl.psum)
        nisa.dma_copy(t, x)
        nisa.memset(sums, 0.0)

        def body(i):
            tile = nl.ndarray(x.shape, x.dtype, nl.psum) if inside else older
            if writer == "tensor":
                nisa.nc_matmul(tile, t, t, accumulate=False)
            else:
                nisa.activation(tile, nl.copy, t)
            nisa.tensor_tensor(sums, sums, tile, nl.add)

        nl.fori_loop(0, 3, body)
        nisa.dma_copy(out, sums)
        return out

    return kernel


def selected(value, command=nisa.reduce_cmd.reset_reduce):
    def kernel(x):
        out, t = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        bound, largest = nl.ndarray((128, 1), nl.float32, nl.sbuf), nl.ndarray((128, 1), nl.float32, nl.sbuf)
        nisa.dma_copy(t, x)
        nisa.memset(bound, 3.0)
        nisa.range_select(dst=t, on_true_tile=t, comp_op0=nl.less, comp_op1=nl.less, bound0=bound, bound1=bound,
                          reduce_cmd=command, reduce_res=largest, reduce_op=nl.maximum, on_false_value=value)
        nisa.dma_copy(out, t)
        return out

    return kernel


def gathered(each, valid, columns=8):
    def kernel(x):
        out, t = nl.ndarray((128, columns), nl.float32, nl.shared_hbm), nl.ndarray((128, 64), nl.float32, nl.sbuf)
        part, index = nl.ndarray((128, columns), nl.float32, nl.sbuf), nl.ndarray((128, 1), nl.uint16, nl.sbuf)
        nisa.dma_copy(t, x[:, 0:64])
        nisa.memset(index, 0)
        nisa.memset(part, 0.0)
        nisa.local_gather(dst=part, src_buffer=t, index=index, num_elem_per_idx=each, num_valid_indices=valid)
        nisa.dma_copy(out, part)
        return out

    return kernel


LOWEST = -3.4028234663852886e38  # of float32
FIRST, SIXTH = "known issues of NKI 0.2", "known issues of NKI 0.6"
NOTES, VARIABLE, DYNAMIC, NEST, GPSIMD, OLDER = (
    "notes of SDK 2.33.1", "known issues of NKI 0.3", "NCC_IBIR829, NCC_IBIR040",
                                          "operand does not dominate this use", "NCC_IXCG965", "NCC_IBIR092")


@pytest.mark.parametrize("kernel, options, issue, releases", [
    (nested(), {"target": "trn2"}, "sdk#1388", ["2.32"]),
    (nested(), {"target": "trn2", "grid": 2}, "sdk#1388", []),
    (nested(), {"target": "trn1"}, "sdk#1388", []),
    (nested(), {"target": "trn1"}, "sdk#1346", SDKS[:4]),
    (biased(nl.copy), {"target": "trn1"}, "sdk#1296", SDKS),
    (biased(nl.relu), {"target": "trn1"}, "sdk#1296", []),
    (biased(nl.copy), {"target": "trn2"}, "sdk#1296", []),
    (far_from_chip, {}, "sdk#1373", ["2.31"]),
    (transposed(nisa.dge_mode.hwdge), {}, NOTES, ["2.33"]),
    (transposed(nisa.dge_mode.unknown), {}, NOTES, []),
    (at_register("hbm", True), {}, VARIABLE, ["2.29"]),
    (at_register("hbm"), {}, VARIABLE, []),
    (at_register(), {"target": "trn1"}, DYNAMIC, SDKS[4:]),
    (at_register(), {"target": "trn2"}, DYNAMIC, []),
    (at_register("hbm"), {"target": "trn1"}, DYNAMIC, []),
    (nested(), {"target": "trn1"}, NEST, SDKS[4:]),
    (nested(), {"target": "trn2"}, NEST, []),
    (doubled(nisa.engine.gpsimd), {"target": "trn1"}, GPSIMD, SDKS[4:]),
    (doubled(nisa.engine.vector), {"target": "trn1"}, GPSIMD, []),
    (doubled(nisa.engine.gpsimd), {"target": "trn2"}, GPSIMD, []),
    (product(False), {"target": "trn1"}, OLDER, SDKS[4:]),
    (product(True), {"target": "trn1"}, OLDER, []),
    (product(False, "scalar"), {"target": "trn1"}, OLDER, []),
    (product(False), {"target": "trn2"}, OLDER, []),
    (selected(LOWEST), {}, FIRST, []),
    (selected(LOWEST, nisa.reduce_cmd.idle), {}, FIRST, ["2.28"]),
    (gathered(2, 4), {}, SIXTH, []), (gathered(1, None, 16), {}, SIXTH, []),
    (gathered(2, None, 32), {}, SIXTH, ["2.32"])],
    ids=["no grid", "a grid", "one core", "nested", "bias of copy", "bias of relu", "bias on trn2", "dynamic tile",
         "hardware descriptors", "others", "loop variable", "register", "compute", "compute on trn2", "dynamic DMA",
         "nested on trn1", "nested on trn2", "GpSimd", "Vector", "GpSimd of trn2", "product", "product into the body's",
         "copy", "product on trn2", "range", "range without a reduction", "gather", "gather of single ones",
         "gather without a number"])
def test_known_defects_are_named_with_what_avoids_them(kernel, options, issue, releases, monkeypatch):
    for sdk in SDKS:
        found = [s for s in findings_under_strict(monkeypatch, sdk, kernel, X, **options) if issue in s]
        assert bool(found) == (sdk in releases), (sdk, found)
        assert all("avoids it" in s for s in found)


def test_every_row_of_the_table_of_defects_has_a_test():
    tested = {*re.findall(r'"(sdk#\d+)"', pathlib.Path(__file__).read_text()), NOTES, VARIABLE, DYNAMIC, NEST, GPSIMD,
              OLDER, FIRST, SIXTH}
    assert {row["issue"] for row in defects.table()} == tested


def test_a_defect_is_reported_at_the_kernels_line(monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "2.31")
    [line] = [line for _, line, text in findings(lambda: nkisim.run(far_from_chip, X)) if "sdk#1373" in text]
    lines = pathlib.Path(__file__).read_text().splitlines()
    assert "dma_copy(out, tile.ap(" in lines[line - 1]
