"""Tests that this version reads the files that released versions wrote (tests/stored):
docs/compatibility.md.
"""

import json
import pathlib
import re
import shutil
import sys

import pytest

from running import ROOT, cli

sys.path.insert(0, str(ROOT / "tests" / "stored"))
import make  # noqa: E402

pytestmark = pytest.mark.process
FOLDERS = sorted(p for p in (ROOT / "tests" / "stored").iterdir() if (p / "outputs.json").exists())
#: A list whose first element decides its outline, and JSON null, may become anything.
OPEN = ("null",)
#: Objects whose keys are data: what an engine's time went to, and the queues that a program uses.
DATA = (".total_fs", ".dma_queues")


@pytest.fixture(params=FOLDERS, ids=lambda p: p.name)
def stored(request, tmp_path):
    return pathlib.Path(shutil.copytree(request.param, tmp_path / "stored"))


def missing_paths(before, now, where=""):
    """Paths of what an earlier outline has and a later one does not, or as another type."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [path for key, value in before.items()
                for path in ([] if key not in now and where.endswith(DATA) else
                             [f"{where}.{key}"] if key not in now else
                             missing_paths(value, now[key], f"{where}.{key}"))]
    if isinstance(before, list) and isinstance(now, list):
        return missing_paths(before[0], now[0], where + "[]") if before and now else []
    return [] if before in OPEN or before == now else [f"{where} (was {before}, is {now})"]


def test_lost_sees_what_is_gone():
    before = {"a": {"b": "number"}, "c": ["text"], "d": "null"}
    assert missing_paths(before, {"a": {"b": "number", "new": "text"}, "c": ["text"], "d": "text"}) == []
    assert missing_paths(before, {"a": {}, "c": ["number"], "d": "null"}) == [
        ".a.b", ".c[] (was text, is number)"]


def test_this_version_is_stored():
    version = cli("--version", cwd=ROOT).stdout.split()[1]
    assert ".".join(version.split(".")[:2]) in [p.name for p in FOLDERS], "run tests/stored/make.py"


@pytest.mark.parametrize("trace, rtol", make.TRACES.items())
def test_traces_give_their_values(stored, trace, rtol):
    for kind in ("jsonl", "nisa"):
        cli("run", f"{trace}.{kind}", "-q", "--expect", f"{trace}.npz", "--rtol", rtol, "--atol",
            1e-6 if rtol else 0, cwd=stored)
    for kind in ("jsonl", "nisa"):
        cli("convert", f"{trace}.{kind}", "-o", f"from_{kind}.jsonl", cwd=stored)
    text, placed = ((stored / f"from_{kind}.jsonl").read_text() for kind in ("jsonl", "nisa"))
    assert text.count("\n") > 3 and without_default_engines(text) == without_default_engines(placed)


def without_default_engines(text):
    """A DMA has this version's engine where a line of JSON names none; a binary trace has its writer's."""
    return re.sub(r'"i":"dma_copy","engine":"\w+"', '"i":"dma_copy"', text)


def test_configs_run(stored):
    cli("config", "validate", "config.json", cwd=stored)
    cli("run", "softmax.jsonl", "-q", "--config", "config.json", cwd=stored)


def test_profile_files_are_shown(stored):
    shown = json.loads(cli("view", "session.npz", "--json", cwd=stored).stdout)
    accounting = shown["nc_0"]
    assert accounting["total_time"] > 0
    compared = json.loads(cli("compare", "session.npz", "session.npz", "--json", cwd=stored).stdout)
    assert compared["summary"]


@pytest.mark.parametrize("name", make.OUTPUTS)
def test_json_outputs_only_grow(stored, name):
    before = json.loads((stored / "outputs.json").read_text())
    if name not in before:
        pytest.skip("a later version's")
    now = make.outline(json.loads(cli(*make.OUTPUTS[name], "--json", cwd=stored).stdout))
    assert missing_paths(before[name], now) == []
