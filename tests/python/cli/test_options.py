"""Tests the one table of options of all commands: its lines, the parsing, the help, and shell completion."""

import concurrent.futures
import json
import re

import pytest

from nkisim_work.option_table import ALIASES, OPTIONS, SWITCHES
from running import ROOT, cli

pytestmark = [pytest.mark.process, pytest.mark.slow]

OLDER = ("report", "diff-profile")  # spellings of view and compare


@pytest.fixture(scope="module")
def commands():
    return re.findall(r"^  ([a-z-]+) {2,}\S", cli("--help").stdout, re.M) + list(OLDER)


@pytest.fixture(scope="module")
def helps(commands):
    """{command: (--help, --help-all, its options as JSON)}."""
    def ask(command):
        return (cli(command, "--help").stdout, cli(command, "--help-all").stdout,
                json.loads(cli(command, "--help-all", "--json").stdout)["options"])
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return dict(zip(commands, threads.map(ask, commands)))


def words(commands):
    return [word.rstrip("*") for word in commands.split()]


def test_the_overview_has_every_command_once_in_a_group(commands):
    text = cli("--help").stdout
    assert re.findall(r"^([a-z][a-z ]*)$", text, re.M) == [
        "run", "understand", "improve", "judge", "models and ranks", "files and tools"]
    assert len(commands) == len(set(commands)) == 33
    complete = re.search(r'compgen -W "([^"]*)"', cli("completion", "bash").stdout)[1].split()
    assert sorted(complete) == sorted(commands)
    assert len(text.splitlines()) <= 60 and all(len(line) <= 100 for line in text.splitlines())


def test_an_option_has_one_name_one_meaning_one_default():
    """rtol and atol alone have two defaults: a trace is compared with values computed for it, a kernel with a reference
    in float32."""
    seen = {}
    for kind, name, letter, value, standard, _, text in OPTIONS:
        seen.setdefault(name, []).append((kind, letter, value, standard, text))
    assert {name for name, rows in seen.items() if len(rows) > 1} == {"rtol", "atol"}
    for name in ("rtol", "atol"):
        assert len({row[:3] + row[4:] for row in seen[name]}) == 1
    letters = [rows[0][1] for rows in seen.values() if rows[0][1]]
    assert len(letters) == len(set(letters))


def test_each_command_takes_what_the_table_says(commands, helps):
    for command in commands:
        table = [{"name": name, "letter": letter, "takes_value": kind != "flag", "default": standard, "text": text}
                 for kind, name, letter, _, standard, of, text in OPTIONS if command in words(of)]
        assert helps[command][2] == table, command
    assert {w for row in OPTIONS for w in words(row[5])} <= set(commands)
    assert {w for row in ALIASES for w in words(row[2])} <= set(commands)


def test_help_fits_a_screen(commands, helps):
    for command in commands:
        short, everything, options = helps[command]
        lines = short.splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 110, command
        assert lines[0].startswith(f"usage: nkisim {command.replace('diff-profile', 'compare')}"), command
        examples = lines[lines.index("examples:") + 1:lines.index("options:") - 1]
        assert 1 <= len(examples) <= 3, command
        for option in options:
            assert f"--{option['name']} " in everything + " ", (command, option)
        assert all(len(line) <= 130 for line in everything.splitlines()), command


def test_compiler_switches_are_one_line_each():
    for command in ("run", "compile", "kernel"):
        lines = cli(command, "--help-compiler").stdout.splitlines()
        names = [line.split()[0].removeprefix("--") for line in lines if line.startswith("  --")]
        assert names == [n for n, _, _ in SWITCHES if command == "kernel" or n != "broadcasts"]
        assert len(lines) <= 40 and max(map(len, lines)) <= 110


def test_completion_has_every_option_of_every_command(commands, helps):
    script = cli("completion", "bash").stdout
    for command in commands:
        offered = re.search(rf'^    {command}\) options="([^"]*)"', script, re.M)[1].split()
        wanted = {"--help", "--help-all", "--json"} | {f"--{o['name']}" for o in helps[command][2]}
        assert wanted <= set(offered), command
    assert "--dma-queues" in re.search(r'^    kernel\) options="([^"]*)"', script, re.M)[1]


def test_older_spellings_are_taken(tmp_path):
    trace = ROOT / "traces" / "softmax.jsonl"
    for old, now in (("--allow-over-capacity", "--over-capacity"),):
        assert cli("run", trace, old).stdout == cli("run", trace, now).stdout
        assert cli("check", trace, old).stdout == cli("check", trace, now).stdout
    cli("compile", trace, "-o", tmp_path / "a.nisa", "--explain")
    session, page = tmp_path / "s.npz", tmp_path / "s.html"
    cli("run", trace, "--session", session, "--quiet")
    assert cli("view", session, "--output-file", tmp_path / "v.txt").returncode == 0
    cli("report", session, "-o", tmp_path / "r.html")
    cli("view", session, "-o", page)
    assert page.read_bytes() == (tmp_path / "r.html").read_bytes()
    sweep = [cli("sweep", trace, f"{option}=trn1,trn2", "--json", "--journal", tmp_path / f"{option}.jsonl").stdout
             for option in ("--target", "--targets")]
    assert [row["settings"] if "settings" in row else row for row in json.loads(sweep[0]).get("points", [])] == \
        [row["settings"] if "settings" in row else row for row in json.loads(sweep[1]).get("points", [])]
    advise = [cli("advise", trace, option, "2", "--json", code=None).returncode for option in ("--budget", "--effort")]
    assert advise == [0, 0]


def test_compare_takes_a_profile():
    profile = ROOT / "tests" / "src" / "data"
    found = sorted((ROOT / "clients" / "validation" / "table" / "profiles").rglob("*.json.gz"))
    assert found, profile
    trace = ROOT / "traces" / "softmax.jsonl"
    assert cli("compare", trace, found[0], code=None).stdout == cli("diff-profile", trace, found[0], code=None).stdout
