"""Tests every value of a machine description at 0, 1, half and double: a run or one error, never a
crash.
"""

import importlib.util
import json
import os
import random

import pytest

from nkisim_work import Worker
from running import ROOT, cli

pytestmark = pytest.mark.process

_spec = importlib.util.spec_from_file_location("doubled", ROOT / "configs" / "doubled.py")
doubled = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(doubled)
KEYS = int(os.environ.get("NKISIM_DRAWN_CASES", "40"))
CONFIG = json.loads((ROOT / "configs" / "trn2.json").read_text())


@pytest.fixture(scope="module")
def worker():
    with Worker() as started:
        yield started


@pytest.fixture(scope="module")
def trn2():
    return dict(doubled.keys(json.loads(cli("config", "show", "trn2").stdout)))


def is_about(path, error):
    """True if an error names the key, or one that is bound by it; without semaphores values are undefined."""
    if path == "compiler.infer_dependences":
        return "undefined" in error["message"]
    of_chip = path == "topology.cores_per_chip" and "/topology/cores_per_" in error["message"]
    return of_chip or path.split(".")[-1] in error["message"]


@pytest.mark.parametrize("section", sorted({path.split(".")[0] for path, _ in doubled.keys(CONFIG)}))
def test_no_value_crashes(section, worker, trn2):
    paths = [path for path in trn2 if path.split(".")[0] == section]
    assert paths
    ran = 0
    for path in paths:
        for value in doubled.settings(trn2[path]):
            setting = f"{path}={json.dumps(value)}"
            for trace, want in (("matmul_psum", "time"), ("flash_attention", "time"), ("gather_loop", "all")):
                outcome = worker.run({"trace": str(ROOT / "traces" / f"{trace}.jsonl"), "want": want,
                                      "set": [setting]}, seconds=120)  # raises if the program ends
                if "error" in outcome:
                    assert is_about(path, outcome["error"]), setting
                else:
                    ran += 1
                    assert outcome["latency_us"] >= 0
    assert ran or section in ("gpsimd_cores", "partitions")  # which have one value


@pytest.mark.parametrize("path, value", [
    ("topology.cores_per_chip", 4), ("topology.rows", 1), ("topology.columns", 8), ("topology.wiring", "chain"),
    ("collectives.ring_bytes", 0), ("topology.cc_cores_per_core", 1), ("topology.streams", 1)])
def test_collectives_take_other_sizes(path, value):
    said = cli("collective", "all_reduce", "1M", "--ranks", "16", "--set", f"{path}={value}", code=None)
    assert said.returncode in (0, 3), said.stderr


@pytest.mark.slow
def test_every_doubling_without_effect_has_its_reason(trn2):
    """The table is what the generator writes, which refuses a key without a reason. A part of the keys by day, all at
    night."""
    lines = (ROOT / "configs" / "doubled.md").read_text().splitlines()
    table = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ") and line[2:6] != "path"}
    assert table and table.keys() <= trn2.keys()
    assert all(len(cells) == 5 and all(cell.strip() for cell in cells[1:4])
               for cells in (line.split("|") for line in table.values()))
    few = random.Random(5).sample(sorted(trn2), min(KEYS, len(trn2)))
    looked_at = 0
    for path, value, effect, otherwise in doubled.doublings(few):
        looked_at += 1
        if isinstance(effect, str):
            assert table[path] == doubled.refused_row(path, value, effect)
        else:
            assert table.get(path) == (None if effect else doubled.kept_row(path, value, otherwise)), path
    assert looked_at > KEYS / 2 or looked_at > len(trn2) / 2
