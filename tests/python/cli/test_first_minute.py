"""Tests `nkisim demo`, `doctor` and `new`, the first commands of a new user."""

import json
import os
import re
import shlex
import sys

import pytest

from nkisim.tools import demo, doctor, machine
from nkisim_evaluate import sandbox
from running import ROOT, cli, python, run

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


def browser(folder):
    """A program that notes what it is asked to show."""
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {folder}/shown\n')
    program.chmod(0o755)
    return f"{program} %s"


def test_the_demo_opens_its_report(tmp_path):
    (tmp_path / "here").mkdir()
    for words in ((), ("--no-open",), ("--open",), ("--open", "--json")):
        done = program("demo", "here", *words, cwd=tmp_path, BROWSER=browser(tmp_path))
        assert done.returncode == 0, done.stderr
        report = tmp_path / "here" / demo.REPORT
        page = report.read_text()
        assert page.endswith("</html>\n") and 40_000 < len(page) < 120_000 and "<title>softmax · nkisim</title>" in page
        report.unlink()
        if words == ("--open",):
            assert f"{report.name} (shown in the browser)" in done.stdout
    assert (tmp_path / "shown").read_text() == 2 * f"{report.as_uri()}\n"


# ---- new ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["softmax", "matmul", "add", "my_kernel"])
def test_what_new_writes_runs(name, tmp_path):
    done = program("new", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = sorted(str(p.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("*") if p.is_file())
    assert written == sorted([".ci/run", ".github/workflows/kernels.yml", f"{name}.py", f"test_{name}.py"])
    ci, kernel = (shlex.split(line.split("&& ")[-1]) for line in done.stdout.split("try next:")[1].splitlines()
                  if line.startswith("  cd ") or line.startswith("  nkisim "))
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST")}
    tested = run(*ci, "-q", "-p", "no:cacheprovider", cwd=tmp_path / name, env=environment)
    assert "3 passed" in tested.stdout
    assert program(*kernel[1:], cwd=tmp_path).returncode == 0
    assert (tmp_path / name / f"{name}.html").exists()
    with open(tmp_path / name / f"{name}.py", "a") as file:
        file.write("\n\nright = reference\n\n\ndef reference(*arrays):\n    return right(*arrays) + 1\n")
    assert run(*ci, "-q", "-p", "no:cacheprovider", cwd=tmp_path / name, env=environment, code=1)


@pytest.mark.parametrize("words, says", [(("my-kernel",), "a name that a Python function may have"),
                                         (("for",), "a name that a Python function may have"),
                                         ((), "see `nkisim new --help`")])
def test_wrong_use_of_new(tmp_path, words, says):
    done = program("new", *words, "--json", cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and json.loads(done.stdout)["ok"] is False
    assert not list(tmp_path.iterdir())


def test_new_overwrites_nothing(tmp_path):
    (tmp_path / "softmax").mkdir()
    (tmp_path / "softmax" / "softmax.py").write_text("mine")
    done = program("new", "softmax", cwd=tmp_path)
    assert done.returncode == 2 and "exists already; nothing is written" in done.stderr
    assert [p.name for p in (tmp_path / "softmax").iterdir()] == ["softmax.py"]


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
    first = program("demo", "--json", *words, cwd=tmp_path)  # wherever it stands among the words
    assert (first.returncode, first.stdout) == (2, done.stdout)
    assert program("demo", *words, cwd=tmp_path).stdout == ""


@pytest.mark.parametrize("words, reported", [(("--json", "--nonsense"), 1), (("--nonsense", "--json"), 1),
                                         (("--nonsense",), 0)])
def test_the_demo_takes_the_words_of_its_program(monkeypatch, capsys, words, reported):
    monkeypatch.setattr("sys.argv", ["demo", *words])
    assert demo.main() == 2
    assert capsys.readouterr().out.count('"kind": "usage"') == reported


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


MACHINE = {"cores": 8, "memory_bytes": 64 << 30, "sandbox": {}, "system": {},
           "aws": {"packages": {"neuronx-cc": "2.21"}, "programs": {"neuron-profile": "/opt/aws/neuron-profile"},
                   "chips": 16}}


@pytest.mark.parametrize("change, what, follows", [
    ({"cores": 1}, "a second core", "one simulation at a time"),
    ({"memory_bytes": 8 << 30}, "memory for all that a core's HBM holds", "may take 4.0 GiB here"),
    ({"sandbox": None}, "a sandbox that can be asked", "use a container"),
    ({"sandbox": {"landlock": "then this"}}, "sandbox: landlock", "then this"),
    ({"system": {"large pages": "slower"}}, "large pages", "slower"),
    ({"aws": {**MACHINE["aws"], "chips": 0}}, "a Neuron device", "nothing here can be measured"),
    ({"aws": {**MACHINE["aws"], "packages": {}}}, "AWS's compiler (neuronx-cc)", "recorded and compiled by nkisim"),
    ({"aws": {**MACHINE["aws"], "programs": {}}}, "AWS's profiler", "that it wrote elsewhere"),
])
def test_the_doctor_says_what_follows(change, what, follows):
    assert machine.lacks(MACHINE) == []
    [lack] = machine.lacks({**MACHINE, **change})
    assert lack["what"].startswith(what) and follows in lack["follows"]


def test_the_doctor_looks_at_the_machine(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "neuron-ls").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "neuron-ls").chmod(0o755)
    (tmp_path / "neuronx_cc-2.21.dist-info").mkdir()
    (tmp_path / "neuronx_cc-2.21.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: neuronx-cc\nVersion: 2.21\n")
    (tmp_path / "nkisim_evaluate.py").write_text("raise SystemExit('the working folder is no program')\n")
    change = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
              "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    done = program("doctor", "--json", cwd=tmp_path, **change)
    found = json.loads(done.stdout)
    here = found["machine"]
    assert 1 <= here["cores"] <= os.cpu_count()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 1 << 26 < here["memory_bytes"] <= physical
    assert here["aws"]["packages"] == {"neuronx-cc": "2.21"}
    assert here["aws"]["programs"] == {"neuron-ls": f"{tmp_path}/bin/neuron-ls"}
    assert here["sandbox"] is not None and set(here["sandbox"]) <= set(sandbox.FOLLOWS)
    assert [lack["what"] for lack in found["lacks"]] == [lack["what"] for lack in machine.lacks(here)]
    said = program("doctor", cwd=tmp_path, **change).stdout.splitlines()
    assert f"cores        {here['cores']}" in said
    assert [f"lacks        {lack['what']}: {lack['follows']}" for lack in found["lacks"]] == [
        line for line in said if line.startswith("lacks ")]
    assert done.returncode == 0  # a machine may lack much; nothing is wrong with it
