"""Tests that a Result replaces no file that was read: a source, an input, data of a program, a configuration."""

import json

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from running import ROOT


def twice(x):
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=o, src=t)
    return o


X = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)


@pytest.mark.parametrize("option", ["session", "perfetto", "chrome", "vcd", "accounting_json"])
def test_an_input_stays(tmp_path, option):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "k.py").write_text("# a source\n")
    config = tmp_path / "c.json"
    config.write_text((ROOT / "configs/trn2.json").read_text())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    result = nkisim.run(twice, mapped, target="trn2", config=config)
    result.save(tmp_path / "k.nisa")
    names = ["x.npy", "k.py", "c.json", "k.npz"]
    before = {name: (tmp_path / name).read_bytes() for name in names}
    for name in names:
        with pytest.raises(nkisim.Error, match="another name is required") as refused:
            result.write(**{option: tmp_path / name})
        assert refused.value.rule == "file_lost"
    with pytest.raises(nkisim.Error, match="another name is required"):
        result.write(session=tmp_path / "s.npz", **{"vcd" if option != "vcd" else "chrome": tmp_path / "s.npz"})
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    result.write(**{option: tmp_path / "free"})
    assert (tmp_path / "free").stat().st_size
    with np.load(tmp_path / "k.npz") as kept:
        np.testing.assert_array_equal(kept["x"], X)
    json.loads(config.read_text())
