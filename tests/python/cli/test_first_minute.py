"""nkisim demo and nkisim doctor: what somebody starts who has just installed it."""

import json
import os
import re
import shlex
import sys

import pytest

from nkisim.tools import demo, doctor
from running import ROOT, cli, python

pytestmark = pytest.mark.process


def program(*words, cwd, **env):
    return cli(*words, code=None, cwd=cwd,
               env={**os.environ, "NKISIM_PYTHON": sys.executable, **env})


# ---- demo ---------------------------------------------------------------------------------------
def test_the_demo_writes_runs_and_says_what_next(tmp_path):
    done = program("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / demo.FILE).read_text() == demo.KERNEL
    assert "output 0: matches" in done.stdout
    assert re.search(r"latency +[0-9.]+ us", done.stdout)
    commands = [line.strip() for line in done.stdout.split("try next:")[1].splitlines()
                if line.startswith("  nkisim ")]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)[1:]
        assert program(*words, cwd=tmp_path).returncode == 0, command
    assert (tmp_path / "softmax.pftrace").stat().st_size > 1000


def test_the_demo_keeps_a_changed_kernel(tmp_path):
    changed = demo.KERNEL.replace("powers / powers.sum", "2 * powers / powers.sum")
    (tmp_path / demo.FILE).write_text(changed)
    done = program("demo", cwd=tmp_path)
    assert done.returncode == 1 and "kept softmax_kernel.py" in done.stdout
    assert "DIFFERS" in done.stdout and "try next" not in done.stdout
    assert (tmp_path / demo.FILE).read_text() == changed


def test_the_demo_as_json(tmp_path):
    (tmp_path / "sub").mkdir()
    result = json.loads(program("demo", "sub", "--json", cwd=tmp_path).stdout)
    assert result["ok"] is True and result["written"] is True
    assert result["file"] == os.path.join("sub", demo.FILE)
    assert result["run"]["ok"] is True and len(result["next"]) == 3


@pytest.mark.parametrize("words, says", [(("none",), "none is no folder"),
                                         (("--nonsense",), "see `nkisim demo --help`")])
def test_wrong_use_of_the_demo(tmp_path, words, says):
    done = program("demo", *words, "--json", cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "usage"
    assert not list(tmp_path.iterdir())


# ---- doctor ---------------------------------------------------------------------------------------
def test_the_doctor_says_what_is_there(tmp_path):
    done = program("doctor", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["ok"] is True and found["problems"] == []
    assert found["version"] == found["program"]["version"]
    assert found["needed"].keys() == {"numpy", "ml_dtypes"} and all(found["needed"].values())
    assert found["imports"]["nki"]["ours"] is True
    lines = program("doctor", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == f"nkisim       {found['version']}"
    assert sum(line.startswith("extra ") for line in lines) == len(doctor.EXTRAS)


def other_nki(folder):
    (folder / "nki").mkdir()
    (folder / "nki" / "__init__.py").write_text("raise ImportError('a placeholder')\n")
    return folder


def test_the_doctor_names_another_nki(tmp_path):
    path = f"{other_nki(tmp_path)}:{os.environ.get('PYTHONPATH', '')}"
    done = python("-m", "nkisim", "doctor", "--json", code=None, env={**os.environ, "PYTHONPATH": path})
    found = json.loads(done.stdout)
    imports = found["imports"]["nki"]
    assert imports["ours"] is False
    assert imports["path"] == str(tmp_path / "nki" / "__init__.py")
    assert imports["other"].endswith("nki/__init__.py")
    assert found["imports"]["neuronxcc"]["ours"] is True


@pytest.mark.parametrize("change, says", [
    ({"needed": {"numpy": None}}, "numpy is missing: pip install numpy"),
    ({"program": {"path": None, "version": None}}, "the nkisim program is not on the path"),
    ({"program": {"path": "/old/nkisim", "version": "0.0.9"}}, "/old/nkisim is version 0.0.9"),
])
def test_the_doctor_sees_what_is_wrong(change, says):
    found = {"version": "0.1.0", "needed": {"numpy": "2"},
             "program": {"path": "/p", "version": "0.1.0"}}
    assert doctor.problems(found) == []
    [problem] = doctor.problems({**found, **change})
    assert says in problem


def test_the_doctor_knows_every_extra():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {extra: {re.split(r"[\[<>=]", need)[0] for need in needs}
             for extra, needs in project["optional-dependencies"].items()}
    named["dask"] = {"distributed"}  # nkisim[sweep] and what dask[distributed] brings
    assert named == {extra: set(packages) for extra, (packages, _) in doctor.EXTRAS.items()}
    assert {re.split(r"[<>=]", need)[0] for need in project["dependencies"]} == set(doctor.NEEDED)
