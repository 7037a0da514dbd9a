"""Tests which source files a profile may show: an untrusted program file names them."""

import os
from types import SimpleNamespace

import pytest

from nkisim_profile.files import MAX_SOURCE, source_text
from nkisim_profile.session import Session


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in" / ".git").mkdir(parents=True)
    for name in ("in/k.py", "in/.hidden.py", "in/.git/hook.py", "in/key.txt", "out.py"):
        (tmp_path / name).write_text(f"# {name}\n")
    os.symlink("../out.py", tmp_path / "in" / "link.py")
    os.symlink(".hidden.py", tmp_path / "in" / "shown.py")
    os.mkfifo(tmp_path / "in" / "pipe.py")
    (tmp_path / "in" / "long.py").write_bytes(b"#" * (MAX_SOURCE + 1))
    return tmp_path / "in"


def test_a_source_file_below_the_folder(folder):
    assert source_text(folder, "k.py") == "# in/k.py\n"


@pytest.mark.parametrize("name", [".hidden.py", ".git/hook.py", "key.txt", "../out.py", "link.py", "shown.py",
                                  "pipe.py", "long.py", "none.py", "/etc/passwd", "."])
def test_no_other(name, folder):
    assert source_text(folder, name) is None


@pytest.mark.parametrize("facts, name", [({"trace": "k.jsonl"}, "k.jsonl"), ({"trace": ""}, "trace"), ({}, "trace")])
def test_an_instruction_without_a_line_of_python_has_that_of_its_trace(facts, name):
    insts = SimpleNamespace(file=[0, 1], line=[0, 7], trace_line=[3, 4])
    session = SimpleNamespace(facts=facts, texts=["", "k.py"], insts=insts)
    assert Session.source(session) == [f"{name}:3", "k.py:7"]
