"""Tests what the cache of `nkisim evaluate` must know: a record comes back only where a kernel, its place, its
reference and its machine are the same, and its speed-up is over the baseline of who asks.
"""

import json
import os

import numpy as np
import pytest

from nkisim_evaluate import BadReference, Evaluator, Settings
from nkisim_evaluate.reference import Reference
from candidates import BODY, GOOD, HEAD, REFERENCE
from running import cli

pytestmark = [pytest.mark.process, pytest.mark.apart]

CHOOSING = GOOD.replace("@nki.jit\ndef kernel", "def f").replace("op=nl.add", "op=nl.add if RIGHT else nl.subtract"
                                                                 ) + "kernel = nki.jit(f)\n"
PAIRS = {
    "a docstring": ('f.__doc__ == "right"', lambda t: t.replace("(a, b):\n", '(a, b):\n    "right"\n'),
                    lambda t: t.replace("(a, b):\n", '(a, b):\n    "wrong"\n')),
    "a line": ("f.__code__.co_firstlineno < 9", lambda t: t, lambda t: "\n" * 9 + t),
    "a column": ("next(f.__code__.co_positions())[2] is not None and '\\n    out =' in open(__file__).read()",
                 lambda t: t, lambda t: t.replace("    out = nl", "    out  = nl")),
    "a comment": ("'RI' + 'GHT' in open(__file__).read().split('#')[-1]", lambda t: t + "# RIGHT\n",
                  lambda t: t + "# other\n"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_text_that_looks_at_itself_is_another(name, tmp_path):
    condition, right, wrong = PAIRS[name]
    (tmp_path / "reference.py").write_text(REFERENCE)
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2"), 1, tmp_path / "c") as judge:
        for change, status in ((right, "ok"), (wrong, "wrong"), (right, "ok")):
            record = judge.evaluate({"source": change(CHOOSING.replace("RIGHT", condition, 1))})
            assert record["status"] == status, record
        assert record["cached"]


NEIGHBOUR = {
    "lists its folder": "'next.txt' not in os.listdir(os.path.dirname(__file__))",
    "scans its folder": "all(e.name != 'next.txt' for e in os.scandir(os.path.dirname(__file__)))",
    "imports by name": "not importlib.util.find_spec('nextdoor')",
}


@pytest.mark.parametrize("name", NEIGHBOUR)
def test_a_kernel_that_knows_its_neighbours_is_another_among_others(name, tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)
    place = tmp_path / "own"
    place.mkdir()
    (place / "k.py").write_text("import importlib.util\n" + CHOOSING.replace("RIGHT", NEIGHBOUR[name]))
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2"), 1, tmp_path / "c") as judge:
        found = []
        for there in (False, False, True, False):
            for file in (place / "next.txt", place / "nextdoor.py"):
                file.touch() if there else file.unlink(missing_ok=True)
            record = judge.evaluate({"path": str(place / "k.py")})
            found.append((record["status"], record["cached"]))
    assert found == [("ok", False), ("ok", True), ("wrong", False), ("ok", True)]


def test_a_speed_up_is_over_the_baseline_of_who_asks(tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)
    for baseline in (10.0, None, 1000.0):
        settings = Settings(tmp_path / "reference.py", target="trn2", baseline=baseline)
        with Evaluator(settings, 1, tmp_path / "c") as judge:
            record = judge.evaluate({"source": GOOD})
            wrong = judge.evaluate({"source": GOOD.replace("op=nl.add", "op=nl.subtract")})
        assert record["speedup"] == (baseline and baseline / record["latency_us"])
        assert wrong["status"] == "wrong" and wrong["speedup"] is None and "faster_likely" not in wrong
    assert record["cached"] and wrong["cached"]


@pytest.mark.parametrize("more, said", [
    ({"baseline": -5.0}, "--baseline is -5.0; more than 0 us"), ({"baseline": 0.0}, "more than 0 us"),
    ({"baseline": float("nan")}, "more than 0 us"), ({"baseline": float("inf")}, "more than 0 us"),
    ({"baseline": 10.0, "stop_slower": 0.1}, "--stop-slower is 0.1; 1 or more"),
    ({"baseline": 10.0, "stop_slower": float("nan")}, "1 or more")])
def test_what_makes_kernels_fast_that_were_not_compared_is_refused(more, said, tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)
    with pytest.raises(BadReference, match=said):
        Settings(tmp_path / "reference.py", **more)


def test_variables_of_evaluate_are_the_same_everywhere(tmp_path, monkeypatch):
    """A candidate cannot distinguish users of a shared cache by them."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    printed = []
    for value in ("/one", "/other"):
        for name in ("HOME", "TZ", "LANG", "LC_ALL", "PATH", "TMPDIR", "USER"):
            monkeypatch.setenv(name, f"{value}:{os.environ['PATH']}" if name == "PATH" else value)
        with Evaluator(Settings(tmp_path / "reference.py", target="trn2"), 1) as judge:
            printed.append(judge.evaluate({"source": HEAD + "print(sorted(os.environ.items()))\n" + BODY.replace(
                "INSERT", "")})["printed"])
    assert printed[0] == printed[1] and "/one" not in printed[0]


def test_a_place_is_part_of_what_is_known(tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.py").write_text(CHOOSING.replace("RIGHT", "'right' in __file__"))
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2"), 1, tmp_path / "c") as judge:
        found = [judge.evaluate({"path": str(tmp_path / name / "k.py")}) for name in ("right", "wrong", "right")]
    assert [r["status"] for r in found] == ["ok", "wrong", "ok"] and found[2]["cached"]


HELPED = REFERENCE.replace("import numpy as np", "import os, sys\nimport numpy as np\n"
                           "sys.path.insert(0, os.path.dirname(__file__))\nHOW")


@pytest.mark.parametrize("how, value", [
    ("import helper_NAME as helper\nSCALE = lambda: helper.SCALE", "helper_NAME.py"),
    ("from helper_NAME import SCALE as S\nSCALE = lambda: S", "helper_NAME.py"),
    ("def SCALE():\n    import helper_NAME\n    return helper_NAME.SCALE", "helper_NAME.py"),
    ("import outer_NAME\nSCALE = lambda: outer_NAME.helper_NAME.SCALE", "helper_NAME.py"),
    ("SCALE = lambda: float(np.load(os.path.dirname(__file__) + '/scale.npy'))", "scale.npy"),
    ("SCALE = lambda: float(os.environ.get('SCALE_OF_NAME', '1'))", "variable")])
def test_what_a_reference_reads_is_part_of_what_is_known(how, value, tmp_path, monkeypatch):
    """In processes of their own, as a search does that is started again."""
    name = f"of_{tmp_path.name}"
    path = tmp_path / "reference.py"
    path.write_text(HELPED.replace("HOW", how).replace("NAME", name).replace("return a + b", "return SCALE() * a + b"))
    (tmp_path / f"outer_{name}.py").write_text(f"import helper_{name}\n")
    (tmp_path / "k.py").write_text(GOOD)
    found = []
    for scale in ("1.0", "1.0", "2.0"):
        if value == "variable":
            monkeypatch.setenv(f"SCALE_OF_{name}", scale)
        elif value.endswith("npy"):
            np.save(tmp_path / value, float(scale))
        else:
            (tmp_path / value.replace("NAME", name)).write_text(f"SCALE = {scale}\n# {scale}\n")
        done = cli("evaluate", "--reference", path, "--candidates", tmp_path / "k.py", "--target", "trn2", "--jobs",
                   "1", "--cache", tmp_path / "c", "--json", code=None)
        record = json.loads(done.stdout)
        found.append((record["status"], record["cached"]))
    assert found == [("ok", False), ("ok", True), ("wrong", False)]


def test_a_helper_that_is_loaded_already_is_known(tmp_path, monkeypatch):
    """By another reference of this process: it is not opened again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper_loaded.py").write_text("SCALE = 1.0\n")
    digests = []
    for text in ("SCALE = 1.0\n", "SCALE = 1.0  # else\n"):
        (tmp_path / "helper_loaded.py").write_text(text)
        (tmp_path / "r.py").write_text(REFERENCE.replace("import numpy", "import helper_loaded\nimport numpy"))
        digests.append(Reference(tmp_path / "r.py").digest())
    assert digests[0] != digests[1]


def test_what_a_config_inherits_is_known(tmp_path):
    (tmp_path / "base.json").write_text(json.dumps({"inherits": "trn2"}))
    (tmp_path / "c.json").write_text(json.dumps({"inherits": "base.json"}))
    (tmp_path / "reference.py").write_text(REFERENCE)
    settings = Settings(tmp_path / "reference.py", config=tmp_path / "c.json")
    before = settings.identity(settings.load())
    assert before == settings.identity(settings.load())
    (tmp_path / "base.json").write_text(json.dumps({"inherits": "trn3"}))
    assert before != settings.identity(settings.load())


def test_only_variables_that_candidates_see_count(tmp_path, monkeypatch):
    """They have one thread each, however many the machine or the user gives."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    settings = Settings(tmp_path / "reference.py")
    before = settings.identity(settings.load())
    monkeypatch.setenv("NKISIM_THREADS", "7")
    assert before == settings.identity(settings.load())
    monkeypatch.setenv("NKISIM_ALLOW_RACES", "1")
    assert before != settings.identity(settings.load())
