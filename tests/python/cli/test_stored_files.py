"""Files that released versions made (tests/stored) are read by this one: docs/versions.md."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "stored"))
import make  # noqa: E402

FOLDERS = sorted(p for p in (ROOT / "tests" / "stored").iterdir() if (p / "outputs.json").exists())
#: A list whose first element decides its outline, and JSON null, may become anything.
OPEN = ("null",)


@pytest.fixture(params=FOLDERS, ids=lambda p: p.name)
def stored(request, tmp_path):
    return pathlib.Path(shutil.copytree(request.param, tmp_path / "stored"))


def nkisim(*words, cwd):
    done = subprocess.run([make.PROGRAM, *map(str, words)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lost(before, now, where=""):
    """Paths of what an earlier outline has and a later one does not, or as another type."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [path for key, value in before.items()
                for path in ([f"{where}.{key}"] if key not in now else
                             lost(value, now[key], f"{where}.{key}"))]
    if isinstance(before, list) and isinstance(now, list):
        return lost(before[0], now[0], where + "[]") if before and now else []
    return [] if before in OPEN or before == now else [f"{where} (was {before}, is {now})"]


def test_lost_sees_what_is_gone():
    before = {"a": {"b": "number"}, "c": ["text"], "d": "null"}
    assert lost(before, {"a": {"b": "number", "new": "text"}, "c": ["text"], "d": "text"}) == []
    assert lost(before, {"a": {}, "c": ["number"], "d": "null"}) == [
        ".a.b", ".c[] (was text, is number)"]


def test_this_version_is_stored():
    version = nkisim("--version", cwd=ROOT).split()[1]
    assert ".".join(version.split(".")[:2]) in [p.name for p in FOLDERS], "run tests/stored/make.py"


@pytest.mark.parametrize("trace, rtol", make.TRACES.items())
def test_traces_give_their_values(stored, trace, rtol):
    for kind in ("jsonl", "nisa"):
        nkisim("run", f"{trace}.{kind}", "-q", "--expect", f"{trace}.npz", "--rtol", rtol,
               "--atol", 1e-6 if rtol else 0, cwd=stored)
    for kind in ("jsonl", "nisa"):
        nkisim("convert", f"{trace}.{kind}", "-o", f"from_{kind}.jsonl", cwd=stored)
    text = (stored / "from_jsonl.jsonl").read_text()
    assert text.count("\n") > 3 and text == (stored / "from_nisa.jsonl").read_text()


def test_configs_run(stored):
    nkisim("config", "validate", "config.json", cwd=stored)
    nkisim("run", "softmax.jsonl", "-q", "--config", "config.json", cwd=stored)


def test_sessions_are_shown(stored):
    shown = json.loads(nkisim("view", "session.npz", "--json", cwd=stored))
    accounting = shown["nc_0"]
    assert accounting["total_time"] > 0
    compared = json.loads(nkisim("compare", "session.npz", "session.npz", "--json", cwd=stored))
    assert compared["summary"]


@pytest.mark.parametrize("name", make.OUTPUTS)
def test_json_outputs_only_grow(stored, name):
    before = json.loads((stored / "outputs.json").read_text())
    if name not in before:
        pytest.skip("a later version's")
    now = make.outline(json.loads(nkisim(*make.OUTPUTS[name], "--json", cwd=stored)))
    assert lost(before[name], now) == []
