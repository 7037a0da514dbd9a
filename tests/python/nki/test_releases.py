"""Tests names, keywords and language rules by SDK release: refused under --strict, else reported on
request.
"""

import types
import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nki.language import tiles as imported_tiles  # noqa: E402
import strict_findings  # noqa: E402
from nkisim.record import names, strict  # noqa: E402

X = np.ones((8, 8), np.float32)


def copied(x):
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def findings_of(monkeypatch, kernel, sdk, on="1"):
    """The findings with strict, the notes without."""
    monkeypatch.setenv("NKISIM_STRICT", on)
    monkeypatch.setenv("NKISIM_SDK", sdk)
    strict._reported.clear()
    found, notes = strict_findings.findings_and_warnings(lambda: nkisim.run(kernel, X))
    texts = [text for _, _, text in found] if on == "1" else notes
    return [text for text in texts if "known defect" not in text]  # test_gate.py's matter


def _arange(x):
    nl.arange  # noqa: B018
    return copied(x)


def _fp32(x):
    nl.fp32  # noqa: B018
    return copied(x)


def _mgrid(x):
    nl.mgrid  # noqa: B018
    return copied(x)


def _nc(x):
    nl.nc  # noqa: B018
    return copied(x)


def _par_dim(x):
    nl.par_dim  # noqa: B018
    return copied(x)


def _spmd_dim(x):
    nl.spmd_dim  # noqa: B018
    return copied(x)


def _static_cast(x):
    nl.static_cast  # noqa: B018
    return copied(x)


def _tensor(x):
    nl.tensor  # noqa: B018
    return copied(x)


def _simulate_kernel(x):
    nki.simulate_kernel  # noqa: B018
    return copied(x)


def _baremetal(x):
    nki.baremetal  # noqa: B018
    return copied(x)


def _benchmark(x):
    nki.benchmark  # noqa: B018
    return copied(x)


def _profile(x):
    nki.profile  # noqa: B018
    return copied(x)


def _precise_schedule(x):
    for _ in nl.affine_range(1, precise_schedule=True):
        pass
    return copied(x)


def _typed(x):
    nki.language.mgrid  # noqa: B018
    return copied(x)


NEVER = {"arange": _arange, "fp32": _fp32, "mgrid": _mgrid, "nc": _nc, "par_dim": _par_dim,
         "spmd_dim": _spmd_dim, "static_cast": _static_cast, "tensor": _tensor,
         "simulate_kernel": _simulate_kernel, "baremetal": _baremetal, "benchmark": _benchmark,
         "profile": _profile, "precise_schedule": _precise_schedule, "language.mgrid": _typed}


@pytest.mark.parametrize("sdk", ["2.29", "2.32", "2.33"])
@pytest.mark.parametrize("name", NEVER)
def test_a_name_that_nki_never_had_is_refused(name, sdk, monkeypatch):
    [found] = findings_of(monkeypatch, NEVER[name], sdk)
    assert name.split(".")[-1] in found and f"SDK {sdk}" in found


def _tiles(x):
    nl.tiles(x, tile_shape=(4, 4))
    return copied(x)


def _imported(x):
    imported_tiles(x, tile_shape=(4, 4))
    return copied(x)


def _transposed(x):
    nl.empty_like(x, buffer=nl.sbuf, transpose_axes=(1, 0))
    return copied(x)


NEW = {"tiles": _tiles, "imported": _imported, "transpose_axes": _transposed}


@pytest.mark.parametrize("name", NEW)
def test_what_2_33_adds_is_refused_before(name, monkeypatch):
    assert len(findings_of(monkeypatch, NEW[name], "2.32")) == 1
    assert findings_of(monkeypatch, NEW[name], "2.33") == []


def test_without_strict_it_is_reported_where_a_release_was_asked_for(monkeypatch):
    assert findings_of(monkeypatch, _tiles, "", on="0") == []
    [reported] = findings_of(monkeypatch, _tiles, "2.32", on="0")
    assert "nki.language.tiles" in reported and "2.33" in reported
    assert findings_of(monkeypatch, _tiles, "", on="0") == []
    assert findings_of(monkeypatch, copied, "2.32") == []


def _cast(x):
    tile, wide = nl.ndarray(x.shape, nl.bfloat16, nl.sbuf), nl.ndarray(x.shape, x.dtype, nl.sbuf)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(wide, x)
    nisa.tensor_copy(dst=tile, src=wide, dtype=nl.bfloat16)
    nisa.tensor_copy(dst=wide, src=tile)
    nisa.dma_copy(out, wide)
    return out


@pytest.mark.parametrize("sdk, found", [("2.28", 0), ("2.29", 1), ("2.33", 1)])
def test_a_keyword_that_awss_examples_of_a_release_pass_is_none_of_its_refusals(sdk, found, monkeypatch):
    """The matrix multiplication of SDK 2.27 and 2.28 and of nki-samples passes dtype, which no page lists."""
    assert sum("no keyword dtype" in text for text in findings_of(monkeypatch, _cast, sdk)) == found


HOST = """
import numpy as np
import nki
import neuronxcc.nki as old
from nki.language import load, ndarray, store, shared_hbm


@nki.jit
def kernel(x):
    out = ndarray(x.shape, x.dtype, buffer=shared_hbm)
    store(out, load(x))
    return out


X = np.ones((8, 8), np.float32)
USE
"""
#: A script's use of what a release lacks -> the module that lacks it; None where it has it.
USES = {"nki.simulate_kernel(kernel, X)": "nki.simulate_kernel", "nki.baremetal(kernel)(X)": "nki.baremetal",
        "from nki import benchmark": "nki.benchmark", "nki.profile(kernel)(X)": "nki.profile",
        "old.baremetal(kernel)(X)": "neuronxcc.nki.baremetal", "nki.simulate(kernel)(X)": None, "kernel(X)": None}


@pytest.mark.parametrize("asked", ["strict", "sdk", ""])
@pytest.mark.parametrize("use", USES)
def test_what_a_script_names_outside_of_kernels_is_reported(use, asked, monkeypatch, tmp_path):
    """nki-samples#134: four scripts went on with neuronxcc.nki.baremetal, and got zeros."""
    path = tmp_path / "script.py"
    path.write_text(HOST.replace("USE", use))
    monkeypatch.setenv("NKISIM_STRICT", "1" if asked == "strict" else "0")
    monkeypatch.setenv("NKISIM_SDK", "2.32" if asked else "")
    strict._reported.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = strict_findings.findings(
            lambda: exec(compile(path.read_text(), path, "exec"), {"__name__": "script"}))
    notes = [(w.lineno, str(w.message)) for w in caught if "is none of SDK 2.32" in str(w.message)]
    reported = [(line, text) for _, line, text in found] if asked == "strict" else notes
    line = HOST[:HOST.index("USE")].count("\n") + 1
    assert [at for at, _ in reported] == ([line] if asked and USES[use] else [])
    assert all(USES[use] in text and "is none of SDK 2.32" in text for _, text in reported)


def test_a_name_that_no_module_has_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'nki' has no attribute 'of_tomorrow'"):
        nki.of_tomorrow  # noqa: B018


helpers = types.ModuleType("helpers")
helpers.gridded = _mgrid


def _calls_helpers(x):
    return helpers.gridded(x)


def test_functions_of_other_modules_that_a_kernel_calls_are_read(monkeypatch):
    [found] = findings_of(monkeypatch, _calls_helpers, "2.33")
    assert "nki.language.mgrid" in found


# ---- language ------------------------------------------------------------------------------------
class Base:
    def rows(self):
        return 8


def _python(x):
    class Derived(Base):
        pass

    try:
        first = next(n for n in x.shape if n is not None)
    finally:
        pass
    double = lambda n: 2 * n  # noqa: E731
    table = {1: double(first), **{2: Derived().rows()}}
    assert {*table} == {1, 2}
    return copied(x)


def _dynamic(x):
    for _ in nl.dynamic_range(2):
        nisa.memset(nl.ndarray((1, 1), nl.float32, nl.sbuf), 0)
    return copied(x)


def _while(x):
    register = nisa.register_alloc(1)
    while register:
        nisa.register_move(register, 0)
    return copied(x)


def test_all_of_python_is_allowed_when_kernels_are_traced(monkeypatch):
    assert len(findings_of(monkeypatch, _python, "2.32")) >= 5
    assert findings_of(monkeypatch, _python, "2.33") == []
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert len(findings_of(monkeypatch, _python, "2.33")) >= 5


@pytest.mark.parametrize("kernel", [_dynamic, _while])
def test_the_old_loops_are_refused_by_the_tracer(kernel, monkeypatch):
    assert findings_of(monkeypatch, kernel, "2.32") == []
    [found] = findings_of(monkeypatch, kernel, "2.33")
    assert "TypeError of the tracer" in found
    assert len(findings_of(monkeypatch, kernel, "2.33", on="0")) == 1
    assert findings_of(monkeypatch, kernel, "", on="0") == []
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert findings_of(monkeypatch, kernel, "2.33") == []


@pytest.mark.parametrize("grid, found", [(3, 1), ((2, 2), 1), (2, 0), ((2,), 0), (None, 0)])
def test_a_grid_is_an_lnc_degree(grid, found, monkeypatch):
    """SDK 2.33's migration guide: the compiler now compares a kernel's LNC degree with its own."""
    monkeypatch.setenv("NKISIM_STRICT", "1")
    for sdk, times in (("2.33", found), ("2.32", 0)):
        monkeypatch.setenv("NKISIM_SDK", sdk)
        reported = strict_findings.findings(lambda: nkisim.run(copied, X, grid=grid, timing=False, allow_races=True))
        assert sum("the launch grid has" in text for _, _, text in reported) == times


# ---- the table -----------------------------------------------------------------------------------
def test_the_table_says_what_the_pages_list():
    assert names.why_absent("nki.language", "tiles", 33) is None
    assert "2.33" in names.why_absent("nki.language", "tiles", 32)
    assert names.releases("nki.isa", "topk") == "2.32 to 2.33"
    assert "neuronxcc.nki.language" in names.why_absent("nki.language", "arange", 33)
    assert names.why_absent("nki.isa", "tensor_copy_dynamic_src", 27) is None
    assert "those of 2.27 do" in names.why_absent("nki.isa", "tensor_copy_dynamic_src", 30)
    assert "no page" in names.why_absent("nki.language", "arith_shift_right", 33)
    assert "precise_schedule" not in (names.keywords("nki.language", "affine_range", 33) or ())


@pytest.mark.parametrize("release", [27, 28, 29, 30, 31, 32, 33])
def test_every_listed_name_and_keyword_of_a_release_passes(release):
    for (module, name), spans in names.table().items():
        for first, last, signature in spans:
            if first <= release <= last:
                assert names.why_absent(module, name, release) is None
                known = names.keywords(module, name, release)
                inner = signature[1:-1].split(", ") if "(" in signature else []
                listed = {p.split("=")[0] for p in inner if p.split("=")[0].isidentifier()}
                assert known is None or listed <= known, (name, listed - known)


# ---- collectives at LNC 1 --------------------------------------------------------------------------
def _reduced(src_buffer, dst_buffer, cores, monkeypatch, sdk):
    import nki.collectives as ncc

    def kernel(x):
        src = nl.ndarray(x.shape, x.dtype, src_buffer)
        dst = nl.ndarray(x.shape, x.dtype, dst_buffer)
        nisa.dma_copy(src, x)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, dst)
        return out

    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    reported = strict_findings.findings(lambda: nkisim.run(kernel, X, ranks=2, lnc=cores, timing=False))
    return {text.split(" ")[0] for _, _, text in reported if "at LNC 1" in text}


def test_operands_of_collectives_are_in_private_hbm_at_lnc_1(monkeypatch):
    shared, private = nl.shared_hbm, nl.private_hbm
    assert _reduced(shared, shared, 1, monkeypatch, "2.33") == {"srcs", "dsts"}
    assert _reduced(private, shared, 1, monkeypatch, "2.33") == {"dsts"}
    assert _reduced(private, private, 1, monkeypatch, "2.33") == set()
    assert _reduced(shared, shared, 2, monkeypatch, "2.33") == set()
    assert _reduced(shared, shared, 1, monkeypatch, "2.32") == set()
    monkeypatch.setenv("NKI_LNC1_SHARED_HBM", "1")
    assert _reduced(private, shared, 1, monkeypatch, "2.33") == set()
    assert _reduced(shared, shared, 1, monkeypatch, "2.33") == {"srcs"}
