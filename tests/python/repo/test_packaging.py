"""Tests the sources of a release: one version everywhere, a licence text for all that wheels hold, and the changelog.
NKISIM_TEST_WHEEL=WHEEL also uses a wheel as its first user does (packaging/try_wheel)."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys

import pytest

from running import PROGRAM, ROOT, SOURCES, run

yaml = pytest.importorskip("yaml")
SPDX = (ROOT / "packaging" / "bundled.spdx").read_text()


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.stem, loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.mark.process
def test_the_version_is_in_one_place():
    """CMakeLists.txt; what else needs it asks there by a pattern that finds it."""
    found = (ROOT / "CMakeLists.txt").read_text()
    version, = re.findall(r"^project\(nkisim VERSION ([0-9.]+)", found, re.M)
    assert run(PROGRAM, "--version").stdout.split() == ["nkisim", version]
    project = (ROOT / "pyproject.toml").read_text()
    pattern, = re.findall(r"^metadata\.version = .*regex = '([^']+)'", project, re.M)
    assert re.search(pattern, found, re.M)["value"] == version
    for path in ("pyproject.toml", "packaging/bundled.spdx", "clients/editor/vscode/package.json", "docs/release.md"):
        assert version not in (ROOT / path).read_text(), path
    assert f"\n## {version} (" in (ROOT / "CHANGELOG.md").read_text()


def test_workflows_call_the_scripts_that_run_here():
    for name, command in (("ci.yml", ".ci/run"), ("ci.yml", ".ci/nightly"), ("release.yml", "scripts/release")):
        jobs = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
        steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
        assert any(step.startswith(command) for step in steps), (name, command)
        assert os.access(ROOT / command, os.X_OK)
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text()), path
    hook, = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert hook["entry"] == "scripts/check"


def test_every_licence_has_its_text():
    expressions = re.findall(r"PackageLicenseConcluded: (.+)", SPDX)
    assert len(expressions) == len(re.findall(r"^PackageName", SPDX, re.M)) > 5
    names = {name for e in expressions for name in re.split(r" AND | WITH ", e)}
    names.remove("GPL-3.0-or-later")  # libstdc++: its exception lets a program be under other terms
    texts = {p.stem for p in (ROOT / "LICENSES").glob("*.txt")}
    assert names == texts - {"SystemC-NOTICE"}
    assert (ROOT / "LICENSES" / "Apache-2.0.txt").read_text() == (ROOT / "LICENSE").read_text()


def test_a_commit_belongs_where_it_changes_most():
    part_of = load(ROOT / "packaging" / "changelog").part_of
    assert part_of(["90\t3\ttests/python/x.py", "2\t1\tmodels/core.cpp"]) == "Timing"
    assert part_of(["5\t0\tisa/alu.cpp", "2\t2\tsrc/cli/main.cpp"]) == "Instructions"
    assert part_of(["-\t-\tdocs/images/a.png", "1\t1\tCMakeLists.txt"]) == "Build and tests"


@pytest.mark.process
def test_a_build_has_what_a_wheel_has():
    """With the PYTHONPATH that scripts/quickstart and the tutorial say, everything that the pages import."""
    built = pathlib.Path(PROGRAM).parent / "python"
    if not built.is_dir():
        pytest.skip("an installed program")
    packages = {p.parent.name for folder in SOURCES for p in folder.glob("*/__init__.py")}
    assert {"nkisim_evaluate", "nkisim_adapters", "nki", "neuronxcc"} < packages
    packages -= {"torch_neuronx", "jax_neuronx"}  # which need torch and JAX
    code = f"import importlib, nkisim\nfor name in {sorted(packages)}: importlib.import_module(name)\nnkisim.evaluate"
    run(sys.executable, "-c", code, cwd="/", env={**os.environ, "PYTHONPATH": str(built)})


@pytest.mark.process
def test_scripts_parse():
    scripts = [p for folder in ("packaging", "scripts") for p in (ROOT / folder).iterdir()
               if p.is_file() and p.read_bytes().startswith(b"#!/usr/bin/env bash")]
    assert len(scripts) > 8
    for script in scripts:
        run("bash", "-n", script)
        assert os.access(script, os.X_OK), script


@pytest.mark.process
@pytest.mark.skipif("NKISIM_TEST_WHEEL" not in os.environ, reason="NKISIM_TEST_WHEEL is not set")
def test_a_wheel_in_an_environment_of_its_own():
    run(ROOT / "packaging" / "try_wheel", os.environ["NKISIM_TEST_WHEEL"], sys.executable)
