"""Tests the script that checks a newer checkout of AWS's kernels: it names each failing kernel, and
no other.
"""

import sys

import pytest

from running import ROOT

sys.path.insert(0, str(ROOT / "tests" / "conformance"))

import upstream  # noqa: E402

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
FILES = {
    "src/nkilib_src/nkilib/__init__.py": "",
    "src/nkilib_src/nkilib/core/__init__.py": "",
    "src/nkilib_src/nkilib/core/shared.py": HEAD + "ROWS = nl.tile_size.pmax\n",
    "src/nkilib_src/nkilib/core/good.py":
        HEAD + "from .shared import ROWS\n\n\n@nki.jit\ndef k(x):\n    return nl.load(x[0:ROWS])\n",
    "src/nkilib_src/nkilib/core/later.py": HEAD + "\n\ndef k(x):\n    nisa.of_tomorrow(dst=x)\n",
    "src/nkilib_src/nkilib/core/gone.py": HEAD + "\n\ndef k(x):\n    return nl.mgrid[0:4]\n",
    "tests/test_good.py": "import boto3\nimport nki\n",
    "docs/example.py": "print('no kernel')\n",
}
BROKEN = {"src/nkilib_src/nkilib/core/broken.py": HEAD + "from nki.language import of_tomorrow\n"}


def checkout(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.process
def test_what_a_later_checkout_needs_is_named(tmp_path, capsys):
    assert upstream.main([str(checkout(tmp_path, {**FILES, **BROKEN}))]) == 1
    said = capsys.readouterr().out
    core = "src/nkilib_src/nkilib/core"
    assert f"{core}/later.py:7: nki.isa.of_tomorrow is none of SDK 2.33: no page of any release lists it" in said
    assert f"{core}/broken.py: import: ImportError" in said and "good.py" not in said
    assert f"{core}/gone.py:7: nki.language.mgrid" in said  # runs here: said, and no failure
    assert "6 files import NKI; 2 fail" in said


@pytest.mark.process
def test_a_checkout_that_needs_nothing_passes(tmp_path, capsys):
    few = {name: text for name, text in FILES.items() if "later" not in name and "gone" not in name}
    assert upstream.main([str(checkout(tmp_path, few)), "--sdk", "2.32"]) == 0
    assert capsys.readouterr().out.strip() == "3 files import NKI; 0 fail"
