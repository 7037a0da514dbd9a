"""Tests that no command overwrites its own input, for every option that writes and every kind of
input.
"""

import os
import re

import numpy as np
import pytest

from nkisim_work.file_roles import clash, files_in
from nkisim_work.option_table import OPTIONS, WRITES
from running import ROOT, cli

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: Each command's words; {} stands for a file of FILES.
COMMANDS = {
    "run": ["{k.nisa}", "--inputs", "{i.npz}", "--expect", "{e.npz}", "--config", "{c.json}"],
    "compile": ["{k.nisa}", "--config", "{c.json}"], "convert": ["{k.nisa}"], "import-profile": ["{hw.json}"],
    "chip": ["{k.nisa}", "--config", "{c.json}"],
    "kernel": ["{k.py}:f", "--arg", "x=f32[4]:{a.npy}", "--config", "{c.json}"],
    "view": ["{s.npz}"], "report": ["{s.npz}"], "compare": ["{s.npz}", "{k.nisa}"],
    "sweep": ["{k.nisa}", "--configs", "trn2,{c.json}"], "advise": ["{k.py}:f", "--config", "{c.json}"],
    "evaluate": ["--reference", "{r.py}", "--candidates", "{k.py}", "--baseline", "{b.py}",
                 "--config", "{c.json}"],
    "tune": ["{k.py}:f", "--reference", "{r.py}", "--param", "n=1,2", "--config", "{c.json}"],
    "model": ["{m.json}", "--part", "mlp={k.py}:f", "--prices", "{p.json}", "--config", "{c.json}"],
    "calibrate": ["--measurements", "{m.json}", "--param", "a=1:2",
                  "--config", "{c.json}"],
    "same": ["{k.nisa}", "{s.npz}"], "probe": ["--measurements", "{m.json}", "--config", "{c.json}"],
}
FILES = ("k.nisa", "k.npz", "i.npz", "e.npz", "c.json", "hw.json", "k.py", "a.npy", "s.npz", "r.py", "b.py", "m.json",
         "p.json")


def writing(command):
    """Its options that write, with what each is called."""
    return [name for _, name, *_, commands, _ in OPTIONS
            if name in WRITES and command in [word.rstrip("*") for word in commands.split()]]


def cases():
    for command, words in COMMANDS.items():
        inputs = [name for name in FILES if any(f"{{{name}}}" in word for word in words)]
        if "k.nisa" in inputs:
            inputs.append("k.npz")  # the data next to it
        for option in dict.fromkeys(writing(command)):
            for name in inputs:
                yield command, option, name


def test_every_command_with_an_output_is_here():
    assert set(COMMANDS) >= {word.rstrip("*") for _, name, *_, commands, _ in OPTIONS if name in WRITES
                             for word in commands.split()}


@pytest.fixture
def folder(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text(f"what {name} holds\n")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_replaces_an_input(command, folder):
    before = {name: (folder / name).read_bytes() for name in FILES}
    words = [word.replace("{", "").replace("}", "") for word in COMMANDS[command]]
    for _, option, name in (case for case in cases() if case[0] == command):
        done = cli(command, *words, f"--{option}", name, cwd=folder, code=None)
        assert done.returncode == 2 and f"--{option} {name} would replace" in done.stderr, (option, name, done.stderr)
        assert {n: (folder / n).read_bytes() for n in FILES} == before
        assert sorted(os.listdir(folder)) == sorted(FILES)


def test_other_names_of_a_file_are_that_file(folder):
    os.symlink("k.nisa", folder / "link.nisa")
    os.link(folder / "k.nisa", folder / "hard.html")
    (folder / "sub").mkdir()
    for name in ("./k.nisa", "sub/../k.nisa", str(folder / "k.nisa"), "link.nisa", "hard.html"):
        assert "would replace what the command reads" in cli("run", "k.nisa", "--html", name, cwd=folder,
                                                             code=2).stderr
        assert "would replace" in cli("view", "k.nisa", "-o", name, cwd=folder, code=2).stderr


def test_one_file_is_written_once(folder):
    assert "--session new.npz would replace what --perfetto writes" in cli(
        "run", "k.nisa", "--session", "new.npz", "--perfetto", "./new.npz", cwd=folder, code=2).stderr
    for saving in ("-o", "--save-recorded"):
        said = cli("kernel", "k.py:f", saving, "new.nisa", "--session", "new.npz", cwd=folder, code=2).stderr
        assert "would replace what --session writes" in said and "[file_lost]" in said


def test_the_log_is_no_input(folder):
    assert "--log-level k.nisa would replace" in cli("run", "k.nisa", "--log-level", "info:k.nisa", cwd=folder,
                                                     code=2).stderr
    for command, name in (("run", "k.nisa"), ("kernel", "k.py")):
        cli(command, name if command == "run" else f"{name}:f", cwd=folder, code=2,
            env={**os.environ, "NKISIM_LOG": f"info:{name}"})
        assert (folder / name).read_text() == f"what {name} holds\n"


def test_data_that_a_trace_names_is_no_output(tmp_path):
    """The archive has another name than the trace, which alone says that it reads it."""
    np.savez(tmp_path / "data.npz", x=np.ones((256, 128), np.float32))
    text = (ROOT / "traces" / "softmax.jsonl").read_text()
    other = re.sub(r'"data": \{"generator": [^}]*\}', '"data": {"npz": "data.npz", "key": "x"}', text)
    assert other != text
    (tmp_path / "other.jsonl").write_text(other)
    before = (tmp_path / "data.npz").read_bytes()
    for option in ("--session", "--outputs", "--summary-json", "--perfetto", "--chrome", "--accounting-json", "--html"):
        assert "would replace what the trace reads" in cli("run", "other.jsonl", option, "data.npz", cwd=tmp_path,
                                                           code=2).stderr
    assert (tmp_path / "data.npz").read_bytes() == before


def test_what_replaces_nothing_is_taken(folder):
    streams = [("--html", "-"), ("--svg", "/dev/stdout"), ("--html", "/dev/stdout")]
    assert clash(streams, [("the command", "k.py")]) == ""
    assert clash([("--html", str(folder / "new.html"))], [("the command", str(folder / "k.py"))]) == ""


def test_words_that_stand_for_files(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert files_in("k.py:f") == ["k.py"] and files_in("mlp=k.py:f") == ["k.py"]
    assert files_in("trn2,c.json") == ["c.json"] and files_in("x=f32[4]:a.npy") == ["a.npy"]
    assert files_in("k.nisa") == ["k.nisa", "k.npz"] and files_in("none") == []
