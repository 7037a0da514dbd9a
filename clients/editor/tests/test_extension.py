"""Tests the VS Code extension in clients/editor/vscode: its manifest, and its code with a stand-in for the
editor. scripts/extension packages it, which needs npm and a network (`scripts/test --full`).
"""

import json
import os
import pathlib
import shutil
import zipfile

import pytest

from running import ROOT, run

FOLDER = ROOT / "clients" / "editor" / "vscode"


def test_the_manifest_agrees_with_the_server():
    manifest = json.loads((FOLDER / "package.json").read_text())
    assert manifest["version"] == "0.0.0"  # scripts/extension gives it the version of CMakeLists.txt
    trust = manifest["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited" and "nkisim.program" in trust["restrictedConfigurations"]
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == manifest["dependencies"]
    source = (FOLDER / manifest["main"]).read_text()
    assert all(f'"{c["command"]}"' in source for c in manifest["contributes"]["commands"])
    assert '"nkisim/trust"' in source


def test_the_debugger_takes_what_the_manifest_offers():
    """Each property of a launch configuration is one that the server reads, with the same default."""
    from nkisim_debug import dap
    debugger, = json.loads((FOLDER / "package.json").read_text())["contributes"]["debuggers"]
    properties = debugger["configurationAttributes"]["launch"]["properties"]
    server = pathlib.Path(dap.__file__).read_text()
    assert all(f'"{name}"' in server for name in properties)
    assert properties["stepTime"]["default"] == dap.STEP_TIME
    assert all(set(c) - {"type", "request", "name"} <= set(properties) for c in debugger["initialConfigurations"])


@pytest.mark.process
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_what_it_starts():
    run("node", pathlib.Path(__file__).parent / "extension_test.js", FOLDER / "extension.js")


@pytest.mark.process
@pytest.mark.skipif("NKISIM_TEST_VSIX" not in os.environ, reason="NKISIM_TEST_VSIX is not set")
def test_the_package():
    names = zipfile.ZipFile(os.environ["NKISIM_TEST_VSIX"]).namelist()
    assert {"extension/extension.js", "extension/package.json", "extension/LICENSE.txt"} <= set(names)
    assert any(n.endswith("vscode-languageclient/lib/node/main.js") for n in names)
