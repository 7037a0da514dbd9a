"""Tests nkisim.region, which names parts of a kernel; reports show the time of each."""

import json
import re

import numpy as np
import pytest
from running import cli

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from nkisim_profile.report import lines  # noqa: E402
from nkisim_profile.session import Session  # noqa: E402

pytestmark = pytest.mark.process

X = np.ones((128, 256), np.float32)
#: Region -> how many instructions of the kernel below are in it.
EXPECTED = {"": 1, "load": 1, "layer 0": 1, "layer 0/scale": 2, "layer 1": 1, "layer 1/scale": 2}


@nki.jit
def named(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    with nkisim.region("load"):
        nisa.dma_copy(dst=tile, src=x)
    for i in range(2):
        with nkisim.region(f"layer {i}"):
            nisa.activation(dst=tile, op=nl.tanh, data=tile)
            with nkisim.region("scale"):
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
                tile = nl.add(tile, 1.0)  # held back until it is known where it goes
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def plain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(2):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        tile = nl.add(tile, 1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def regions_of(path):
    session = Session(str(path))
    return session, session.text(session.insts.region.tolist())


def counted(names):
    return {name: names.count(name) for name in set(names)}


def test_values_and_times_are_those_without():
    with_names, without = nkisim.run(named, X, target="trn2"), nkisim.run(plain, X, target="trn2")
    assert np.array_equal(with_names.outputs, without.outputs)
    assert with_names.latency_ns == without.latency_ns


@pytest.mark.parametrize("name", ["k.jsonl", "k.nisa"])
def test_instructions_carry_their_region_through_a_trace(name, tmp_path):
    nkisim.run(named, X, target="trn2").save(tmp_path / name, compiled=False)
    done = cli("run", tmp_path / name, "--session", tmp_path / "s.npz")
    assert done.returncode == 0, done.stderr
    assert counted(regions_of(tmp_path / "s.npz")[1]) == EXPECTED


def test_the_accounting_by_region_is_that_by_line(tmp_path):
    nkisim.run(named, X, target="trn2").write(accounting_json=tmp_path / "a.json")
    [core] = json.loads((tmp_path / "a.json").read_text())["cores"]
    groups = [engine for engine in core["engines"].values() if "by_region_fs" in engine]
    assert len(groups) >= 2
    for engine in groups:
        sums = [sum(sum(causes.values()) for causes in engine[key].values()) for key in ("by_region_fs", "by_line_fs")]
        assert sums[0] == sums[1] > 0
    nkisim.run(plain, X, target="trn2").write(accounting_json=tmp_path / "b.json")
    assert "by_region_fs" not in (tmp_path / "b.json").read_text()


def test_explain_charges_the_whole_critical_path_to_regions(tmp_path):
    nkisim.run(named, X, target="trn2").save(tmp_path / "k.nisa")
    said = cli("run", tmp_path / "k.nisa", "--explain").stdout
    rows = said[said.index("regions of the critical path"):said.index("verdict")].splitlines()[1:]
    found = [re.fullmatch(r" +([\d.]+) % +([\d.]+) ns  (.*)", row).groups() for row in rows]
    assert [name for _, _, name in found] == ["load", "layer 0", "layer 0/scale", "layer 1", "layer 1/scale", "(none)"]
    assert sum(float(share) for share, _, _ in found) == pytest.approx(100, abs=0.05)
    nkisim.run(plain, X, target="trn2").save(tmp_path / "k.nisa")
    assert "regions of" not in cli("run", tmp_path / "k.nisa", "--explain").stdout


def test_each_core_has_regions_of_its_own(tmp_path):
    @nki.jit
    def two(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        with nkisim.region(f"core {core}"):
            nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out[core], src=tile)
        return out

    nkisim.run(two, X, grid=2, target="trn2").write(session=tmp_path / "s.npz")
    session, names = regions_of(tmp_path / "s.npz")
    assert set(zip(session.insts.core.tolist(), names)) >= {(0, "core 0"), (1, "core 1"), (0, ""), (1, "")}
    assert not {(0, "core 1"), (1, "core 0")} & set(zip(session.insts.core.tolist(), names))


def test_a_region_ends_where_its_block_is_left_by_an_exception(tmp_path):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        try:
            with nkisim.region("left"):
                raise ValueError
        except ValueError:
            pass
        nl.store(out, nl.load(x))
        return out

    nkisim.run(kernel, X, target="trn2").write(session=tmp_path / "s.npz")
    assert set(regions_of(tmp_path / "s.npz")[1]) == {""}


@pytest.mark.parametrize("name", ["", "a/b", 3, None])
def test_a_name_that_is_none_is_an_error_at_its_line(name):
    @nki.jit
    def kernel(x):
        with nkisim.region(name):
            return x

    with pytest.raises(nkisim.Error, match="the name of a region is .* is required") as problem:
        nkisim.run(kernel, X, target="trn2")
    assert problem.value.rule == "python_value" and __file__ in str(problem.value)


def test_a_profile_file_without_regions_has_none(tmp_path):
    import zipfile

    nkisim.run(plain, X, target="trn2").write(session=tmp_path / "s.npz")
    with zipfile.ZipFile(tmp_path / "s.npz") as old, zipfile.ZipFile(tmp_path / "old.npz", "w") as new:
        for member in old.infolist():
            if "insts.region" not in member.filename:
                new.writestr(member, old.read(member))
    assert set(regions_of(tmp_path / "old.npz")[1]) == {""}


def test_the_page_has_a_row_of_each(tmp_path):
    nkisim.run(named, X, target="trn2").write(html=tmp_path / "k.html", session=tmp_path / "s.npz")
    assert "Where the time" in (tmp_path / "k.html").read_text()
    session, _ = regions_of(tmp_path / "s.npz")
    rows = lines.regions(session)
    assert sorted(row["name"] for row in rows) == ["", "layer 0", "layer 0/scale", "layer 1", "layer 1/scale", "load"]
    assert sum(row["critical"] for row in rows) <= session.end_fs  # what no instruction bounds is left
    assert sum(row["busy"] for row in rows) == sum(row["busy"] for row in lines.source_lines(session)["rows"])


def test_a_report_that_there_is_not_is_an_error(tmp_path):
    run = nkisim.run(plain, X, target="trn2")
    for call in (lambda: run.write(htm=tmp_path / "k"), lambda: nkisim.Options(files={"page": tmp_path / "k"})):
        with pytest.raises(nkisim.Error, match="report is '(htm|page)'; one of .*session.* is required"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_comparison_has_the_region_that_changed(tmp_path):
    nkisim.run(named, X, target="trn2").save(tmp_path / "a.jsonl", compiled=False)
    lines_of_a = (tmp_path / "a.jsonl").read_text().splitlines()
    again = next(i for i, line in enumerate(lines_of_a) if '"layer 1/scale"' in line and '"tensor_scalar"' in line)
    (tmp_path / "b.jsonl").write_text("\n".join([*lines_of_a[:again], lines_of_a[again], *lines_of_a[again:]]) + "\n")
    found = json.loads(cli("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json").stdout)
    row, = (r for r in found["by_region"] if r["a_count"] != r["b_count"])
    assert (row["what"], row["a_count"], row["b_count"]) == ("layer 1/scale", 2, 3)
    assert row["change_ns"] > 0 and row in found["cost_most"]["by_region"]
