"""Tests machine descriptions with other sizes, such as a smaller PE array: programs follow, or are
refused.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
from running import ROOT, cli

TRACES = ROOT / "traces"


@nki.jit
def products(a, b):
    """a.T @ b, 64 times into one sum."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    s = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    m = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    q = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=s, src=a)
    nisa.dma_copy(dst=m, src=b)
    for i in range(64):
        nisa.nc_matmul(p, s, m, accumulate=i > 0)
    nisa.tensor_copy(q, p)
    nisa.dma_copy(dst=out, src=q)
    return out


@nki.jit
def wide(x):
    """x + 1, by a tile of 64 KiB per partition."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(t, t, nl.add, 1.0)
    nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def four_tiles(x):
    """Each quarter of x plus the quarter at its other end: four tiles of 48 KiB per partition live at once."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = x.shape[1] // 4
    tiles = []
    for i in range(4):
        t = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, i * width:(i + 1) * width])
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        tiles.append(t)
    for i in range(4):
        for half in range(2):
            part = slice(half * width // 2, (half + 1) * width // 2)
            total = nl.ndarray((128, width // 2), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(total, tiles[i][:, part], tiles[3 - i][:, part], nl.add)
            nisa.dma_copy(dst=out[:, i * width + half * width // 2:i * width + (half + 1) * width // 2], src=total)
    return out


def operands():
    draw = np.random.default_rng(7)
    return (draw.standard_normal((128, 128)).astype(ml_dtypes.bfloat16),
            draw.standard_normal((128, 512)).astype(ml_dtypes.bfloat16))


def of_array(size):
    return nkisim.run(products, *operands(), overrides={"pe_rows": size, "pe_columns": size})


def test_a_smaller_array_takes_longer_and_gives_the_same_bits():
    results = {size: of_array(size) for size in (16, 32, 64, 128, 256)}
    times = {size: result.latency_us for size, result in results.items()}
    # Four times the passes for half the lines, each streaming 512 columns.
    assert times[16] > 3 * times[32] > 9 * times[64] / 1.2
    assert times[64] > 3 * times[128] / 1.2
    assert times[256] == times[128], "operands fill 128 rows and columns"
    bits = {size: np.asarray(result.outputs).tobytes() for size, result in results.items()}
    assert len(set(bits.values())) == 1


@pytest.mark.process
def test_validate_says_what_no_program_can_use():
    said = cli("config", "validate", "trn2", "--set", "pe_rows=256").stdout
    assert "pe_rows = 256 takes the time of 128" in said
    assert cli("config", "validate", "trn2").stdout == "trn2: ok\n"


def test_tile_size_follows_the_machine():
    seen = []

    def look(_x):
        seen.append((nl.tile_size.sbuf_fmax_bytes, nl.tile_size.psum_num_banks, nl.tile_size.psum_fmax))

    try:
        nkisim.run(look, np.ones((128, 64), np.float32),
                   overrides={"sbuf_partition_bytes": 98304, "psum_banks": 4})
    except nkisim.Error:
        pass  # it returns nothing
    assert seen[0] == (98304, 4, 16384 // 4 // 4)


def test_what_does_not_fit_half_of_sbuf_is_one_error_with_the_key():
    x = np.random.default_rng(3).standard_normal((128, 4 * 12288)).astype(np.float32)
    quarters = 2 * x.reshape(128, 4, 12288)
    right = (quarters + quarters[:, ::-1]).reshape(x.shape)
    assert np.array_equal(np.asarray(nkisim.run(four_tiles, x).outputs), right)
    with pytest.raises(nkisim.Error, match="sbuf_partition_bytes of the config; trn2 has 229376"):
        nkisim.run(four_tiles, x, overrides={"sbuf_partition_bytes": 114688})


def test_a_tile_that_no_longer_fits_names_the_key():
    x = np.ones((128, 16384), np.float32)  # 64 KiB per partition
    assert np.array_equal(np.asarray(nkisim.run(wide, x).outputs), x + 1)
    small = nkisim.run(wide, x, overrides={"sbuf_partition_bytes": 65536})
    assert np.array_equal(np.asarray(small.outputs), x + 1)
    with pytest.raises(nkisim.Error) as refused:
        nkisim.run(wide, x, overrides={"sbuf_partition_bytes": 32768})
    assert "sbuf_partition_bytes" in str(refused.value)


@pytest.mark.process
def test_a_trace_of_another_machine_is_one_error(tmp_path):
    config = {"inherits": "trn2", "name": "half", "sbuf_partition_bytes":
              {"value": 114688, "unit": "bytes", "source": "a what-if", "confidence": "assumed"}}
    file, trace = tmp_path / "half.json", tmp_path / "softmax.jsonl"
    file.write_text(json.dumps(config))
    cli("compile", TRACES / "softmax.jsonl", "-o", trace, "--config", file)
    header = json.loads(trace.read_text().splitlines()[0])
    assert header["machine"]["sbuf_partition_bytes"] == 114688
    cli("run", trace, "--timing-only", "--config", file)
    said = cli("run", trace, "--timing-only", code=3).stderr
    assert "sbuf_partition_bytes" in said and "114688" in said and "229376" in said
    said = cli("run", trace, "--timing-only", "--config", file, "--set", "pe_rows=64", code=3).stderr
    assert "pe_rows" in said and "128" in said and "64" in said
    cli("run", TRACES / "softmax.jsonl", "--timing-only", "--config", file)  # without sizes: of any such machine
    header["machine"]["sbuf_partition_bytes"] = 65536
    trace.write_text(json.dumps(header) + "\n" + trace.read_text().partition("\n")[2])
    assert "hash" in cli("run", trace, "--timing-only", "--config", file, code=3).stderr


@pytest.mark.process
@pytest.mark.parametrize("name", ["trn1n", "trn2n", "trn2u", "trn2u.48xlarge", "trn3-gen2-ultraserver", "gen3"])
def test_every_name_of_a_target_is_one_everywhere(name):
    cli("run", TRACES / "tensor_add.jsonl", "--target", name, "--quiet")
    cli("isa", "--target", name)
    cli("config", "show", name)
    assert nkisim.run(wide, np.ones((128, 64), np.float32), target=name).latency_us > 0


def test_instances_are_of_known_targets():
    from nkisim.record.targets import chip_of, resolve_target
    rows = json.loads((Path(ROOT) / "configs" / "instances.json").read_text())["instances"]
    for row in rows:
        assert resolve_target(row["name"]) == row["target"]
        cores, memory = chip_of(row["target"])
        assert row["cores_per_chip"] == cores
        assert row["chips"] * memory == row["device_memory_gib"] << 30
        assert row["ranks"] * row["default_lnc"] == row["chips"] * cores


@pytest.mark.process
def test_a_core_without_an_engine_refuses_what_only_that_one_does():
    x = np.ones((128, 64), np.float32)
    without = nkisim.run(wide, x, overrides={"engines.vector.available": False})  # another engine adds
    assert np.array_equal(np.asarray(without.outputs), x + 1)
    said = cli("run", TRACES / "matmul_psum.jsonl", "--timing-only", "--set", "engines.tensor.available=false",
               code=3).stderr
    assert "engines.tensor.available" in said and "nc_matmul" in said


@nki.jit
def sixteen_sums(x):
    """x + 16 tiles, first to last and then last to first, so that all are live at once, each in a bank of PSUM."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    ones = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=total, src=x)
    nisa.memset(ones, 1.0)
    banks = []
    for i in range(16):
        bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_scalar(bank, ones, nl.multiply, float(i))
        banks.append(bank)
    for bank in banks + banks[::-1]:
        nisa.tensor_tensor(total, total, bank, nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def test_a_psum_of_sixteen_banks_holds_twice_the_tiles():
    x = np.random.default_rng(5).integers(0, 99, (128, 512)).astype(np.float32)
    with pytest.raises(nkisim.Error, match="psum"):
        nkisim.run(sixteen_sums, x)
    larger = {"psum_partition_bytes": 32768, "psum_banks": 16}
    assert np.array_equal(np.asarray(nkisim.run(sixteen_sums, x, overrides=larger).outputs), x + 2 * sum(range(16)))


def test_a_product_larger_than_a_bank_names_the_key():
    with pytest.raises(nkisim.Error, match="psum_banks of the config; trn2 has 8"):
        nkisim.run(products, *operands(), overrides={"psum_banks": 16})


@nki.jit
def halves_of_a_bank(x):
    """VectorE and ScalarE work on the two halves of one 2 KiB bank."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    q = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=q, src=x)
    for _ in range(8):
        nisa.tensor_copy(p[:, 0:256], q[:, 0:256], engine=nisa.engine.vector)
        nisa.activation(dst=p[:, 256:512], op=nl.copy, data=q[:, 256:512])
    nisa.tensor_copy(q, p)
    nisa.dma_copy(dst=out, src=q)
    return out


def test_engines_that_shared_a_bank_have_one_each_of_smaller_banks():
    x = np.random.default_rng(6).standard_normal((128, 512)).astype(np.float32)
    times = {}
    for banks in (4, 8, 16, 32):
        result = nkisim.run(halves_of_a_bank, x, overrides={"psum_banks": banks})
        assert np.array_equal(np.asarray(result.outputs), x)
        times[banks] = result.latency_us
    assert times[4] == times[8] > 1.2 * times[16]
    assert times[16] == times[32]


@pytest.mark.process
@pytest.mark.parametrize("setting, required", [
    ("gpsimd_cores=4", "8 is required; no model follows another value"),
    ("gpsimd_cores=16", "8 is required; no model follows another value"),
    ("topology.streams=2", "4 is required; no model follows another value"),
    ("psum_banks=64", "a power of two from 1 to 32 is required")])
def test_a_key_that_no_model_follows_is_refused_by_name(setting, required):
    said = cli("run", TRACES / "softmax.jsonl", "--set", setting, code=3).stderr
    assert setting.split("=")[0].replace(".", "/") in said and required in said
