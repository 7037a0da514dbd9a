"""Tests the pools of processes and threads that `nkisim evaluate`, `tune` and `sweep` run on."""

import itertools
import sys
import threading
import time
import types

import pytest

from nkisim_evaluate import __main__ as command
from nkisim_evaluate import witness
from nkisim_evaluate.cluster import Cluster
from nkisim_evaluate.evaluator import Settings
from nkisim_work import Local, program

#: The module: the package has the function under this name.
program_module = sys.modules["nkisim_work.program"]
pytestmark = pytest.mark.process


def test_every_task_gives_one_result():
    found = Local([lambda a, b: a * b] * 3).results((n, 2) for n in range(1000))
    assert sorted(found) == [2 * n for n in range(1000)]


def test_results_come_as_they_are_finished():
    gate = threading.Event()

    def work(name):
        if name == "slow":
            gate.wait(20)
        return name

    found = Local([work] * 2).results([("slow",), ("fast",), ("last",)])
    assert [next(found), next(found)] == ["fast", "last"]
    gate.set()
    assert list(found) == ["slow"]


def test_tasks_are_taken_as_fast_as_results_are():
    taken = itertools.count()
    found = Local([lambda n: n] * 2).results((next(taken),) for _ in iter(int, 1))  # without an end
    assert {next(found) for _ in range(10)} <= set(range(20))
    time.sleep(0.2)
    # In addition to the ten: two each finished, being finished, and waiting, and one about to wait.
    assert next(taken) <= 10 + 2 + 2 + 2 + 1


@pytest.mark.parametrize("where", ["a worker", "the tasks"])
def test_an_exception_is_raised_here(where):
    def tasks():
        yield (1,)
        if where == "the tasks":
            raise KeyError("tasks")
        yield (0,)

    with pytest.raises(KeyError if where == "the tasks" else ZeroDivisionError):
        list(Local([lambda n: 1 // n]).results(tasks()))


def test_leaving_ends_the_threads():
    before = threading.active_count()
    found = Local([lambda n: n] * 4).results((n,) for n in range(10**9))
    next(found)
    found.close()
    for _ in range(100):
        if threading.active_count() <= before:
            return
        time.sleep(0.05)
    raise AssertionError([t.name for t in threading.enumerate()])


def test_the_program_of_an_environment_that_is_not_activated(monkeypatch, tmp_path):
    for folder in ("scripts", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "nkisim").write_text("")
        (tmp_path / folder / "nkisim").chmod(0o755)
    monkeypatch.delenv("NKISIM_PROGRAM", raising=False)
    monkeypatch.setattr(program_module.sysconfig, "get_path", lambda name: str(tmp_path / name))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == str(tmp_path / "scripts" / "nkisim")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert program() == str(tmp_path / "path" / "nkisim")
    monkeypatch.setenv("NKISIM_PROGRAM", str(tmp_path / "scripts" / "nkisim"))
    assert program() == str(tmp_path / "scripts" / "nkisim")


def test_a_cluster_ends_its_pool(tmp_path):
    class Pool:
        open = True

        def close(self):
            self.open = False

    pool = Pool()
    (tmp_path / "ref.py").write_text("def inputs(seed): return ()\ndef reference(): return 0\n")
    cluster = Cluster(lambda: pool, Settings(tmp_path / "ref.py"))
    assert pool.open
    cluster.close()
    assert not pool.open


@pytest.mark.parametrize("arguments, expected", [
    (("kind" * 9, "what"), [("kindkindkindkind", "what")]), (("kind", 3), []), ((3, "what"), []), ((None, None), [])])
def test_a_flag_is_two_texts(arguments, expected):
    """A candidate can raise the event with whatever it likes."""
    found = []
    assert witness._report_by_name("nkisim_evaluate.flag", arguments, lambda *said: found.append(said))
    assert found == expected


@pytest.mark.parametrize("problem, code, said", [(KeyboardInterrupt, 130, "nkisim evaluate: interrupted\n"),
                                                 (BrokenPipeError, 0, "")])
def test_who_listens_no_more_has_received_enough(problem, code, said, monkeypatch, capsys):
    def ended(words):
        assert words == ["k.py"]
        raise problem

    monkeypatch.setattr(command, "import_module", lambda *_: types.SimpleNamespace(main=ended))
    monkeypatch.setattr(sys, "argv", ["nkisim_evaluate", "evaluate", "k.py"])
    assert command.main() == code and capsys.readouterr().err == said
