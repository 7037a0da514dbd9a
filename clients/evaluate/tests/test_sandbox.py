"""Tests the process in which submitted, untrusted kernels run, on every installed Python that
nkisim supports. It runs with and without a supervisor that allows or refuses its system calls, and without
root's rights.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

import nkisim_evaluate
from running import ROOT, run

pytestmark = pytest.mark.process
TEXTS = [
    ("x = 1", []), ("import logging, dataclasses, json, typing\nlogging.getLogger().warning('x')", []),
    ("def g(): yield\nnext(g())", []), ("open('x', 'w').write('1')", []),
    ("import sys; sys._getframe(1)", ["introspection"]),
    ("try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame", ["introspection"]),
    ("import gc; gc.get_objects()", ["introspection"]), ("import os; os.getcwd = None", ["rebinds"]),
    ("import os; os.environ['A'] = '1'", ["environment"]),
    ("try: open('REFERENCE')\nexcept OSError: pass", ["reference"]),
    ("try: open('/etc/passwd')\nexcept OSError: pass", ["files"]),
    ("import os\ntry: os.fork() or os._exit(0)\nexcept OSError: pass", ["processes"]),
    ("import socket\ntry: socket.socket()\nexcept OSError: pass", ["network"]),
    ("import threading; threading.Thread(target=print).start()", ["processes"]),
    ("import subprocess\ntry: subprocess.run(['true'])\nexcept OSError: pass", ["processes"]),
    ("import os; os._exit(0)", None)]


def interpreters():
    """{version: path} of the supported ones that are here."""
    found = {"%d.%d" % sys.version_info[:2]: sys.executable}
    for minor in range(10, 15):
        for path in (*sorted(pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")),
                     shutil.which(f"python3.{minor}")):
            found.setdefault(f"3.{minor}", path) if path else None
    return found


@pytest.fixture
def folder():
    """Not below pytest's own, which each run of pytest makes the user's alone."""
    with tempfile.TemporaryDirectory(prefix="nkisim-sandbox-") as name:
        place = pathlib.Path(name)
        for inner in ("nkisim_evaluate", "own", "scratch"):
            (place / inner).mkdir()
        for empty in ("reference.py", "own/k.py", "nkisim_evaluate/__init__.py"):
            (place / empty).touch()
        for module in ("confine", "overseer", "sandbox", "syscalls", "witness"):
            shutil.copy(pathlib.Path(nkisim_evaluate.__file__).parent / f"{module}.py", place / "nkisim_evaluate")
        shutil.copy(ROOT / "tests" / "support" / "sandbox_probe.py", place)
        yield place


@pytest.mark.parametrize("who", ["watched", "on an old kernel", "without rights"])
@pytest.mark.parametrize("version", interpreters())
def test_flags_by_every_python(version, who, folder):
    words = [interpreters()[version], folder / "sandbox_probe.py", folder, "" if "old" in who else "notifier"]
    if who == "without rights":
        if os.geteuid() != 0 or not shutil.which("setpriv") or not os.access("/usr/bin/python3", os.X_OK):
            pytest.skip("needs root, to give its rights up")
        if version != "%d.%d" % sys.version_info[:2]:
            pytest.skip("one is enough; others' folders may be root's alone")
        words[0] = "/usr/bin/python3"
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
        words = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", *words]
    texts = [text.replace("REFERENCE", str(folder / "reference.py")) for text, _ in TEXTS]
    done = run(*words, input=json.dumps(texts), env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"})
    missing, found = json.loads(done.stdout)
    if "old" in who and "landlock" in missing:
        pytest.skip("an old kernel without a new one's Landlock")
    for (text, flags), (kind, has) in zip(TEXTS, found):
        if "Thread" in text and "old" in who and version in ("3.10", "3.11"):
            continue  # which report nothing of a thread that has ended
        assert (kind == "crashed") if flags is None else (kind == "result" and has == flags), (text, kind, has)


def test_elsewhere_it_says_what_is_missing(folder):
    """As on macOS: what the process inside sees is reported, and its end is the judge's; nothing else holds it."""
    texts = ["x = 1", "import sys; sys._getframe(1)", f"open('{folder}/written', 'w').write('1')",
             "import os; os._exit(0)", "while True: pass", "try: open('/etc/passwd')\nexcept OSError: pass"]
    done = run(sys.executable, folder / "sandbox_probe.py", folder, "elsewhere", input=json.dumps(texts),
               env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"})
    missing, found = json.loads(done.stdout)
    assert missing == ["network", "processes", "mounts", "landlock", "system calls"]
    assert found[:2] == [["result", []], ["result", ["introspection"]]]
    assert found[2][0] == "result" and (folder / "written").exists()
    assert [kind for kind, _ in found[3:5]] == ["crashed", "timeout"]
    assert found[5] == ["result", ["files"]]
