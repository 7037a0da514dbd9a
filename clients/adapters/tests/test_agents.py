"""Tests nkisim for AI agents and learners: the MCP server through the MCP SDK's client, and
nkisim_adapters.rl, the environment for reinforcement learning.
"""

import asyncio
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import nkisim
from nkisim_adapters.rl import Environment, parts_of
from nkisim_adapters.tasks import SHAPES, tasks
from nkisim_evaluate.reference import load
from candidates import GOOD, REFERENCE
from running import ROOT, cli

pytestmark = [pytest.mark.process, pytest.mark.apart, pytest.mark.slow]
SEARCH = ROOT / "examples" / "search"


@pytest.fixture
def search(monkeypatch):
    monkeypatch.syspath_prepend(str(SEARCH))


def example(name, *words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, SEARCH / name, *words], capture_output=True, text=True, env=environment,
                          check=True).stdout


# ---- MCP ---------------------------------------------------------------------------------------
def test_an_agent_evaluates_ten_kernels(search, tmp_path):
    """The tools say what nkisim.evaluate says of the same kernels."""
    mcp = pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    from nkisim_adapters.mcp_command import references_of
    from nkisim_adapters.mcp_server import MOST_BYTES, make
    from variants import variants

    kernels = list(itertools.islice(variants(), 12, 22))
    expected = {r["id"]: r for r in nkisim.evaluate(SEARCH / "reference.py", kernels, jobs=1, target="trn2")}
    assert {r["status"] for r in expected.values()} >= {"ok", "wrong", "illegal"}
    server, judges = make(references_of([SEARCH / "reference.py"]), target="trn2")
    log = tmp_path / "made.log"

    async def judged():
        async with mcp.Client(server) as agent:
            tools = {t.name for t in (await agent.list_tools()).tools}
            assert tools == {"references", "evaluate", "explain", "advise", "compare"}
            texts = (await agent.call_tool("references", {})).structured_content
            assert "def inputs(seed)" in texts["reference"]
            for kernel in kernels:
                said = (await agent.call_tool("evaluate", {"source": kernel["source"]})).structured_content
                of = expected[kernel["id"]]
                assert said["status"] == of["status"]
                assert said.get("latency_us") == of["latency_us"]
                if of["status"] == "illegal":
                    assert said["error"]["message"] == of["error"]["message"]
                    assert said["error"]["kernel_line"] == of["error"]["kernel_line"]
            said = (await agent.call_tool("explain", {"name": "operand_memory"})).structured_content
            assert "Load a tensor of HBM into a tile first" in said["fix"] and "nisa.activation" in said["wrong"]
            for name in (f"--log-level=trace:{log}", "--help", "-", "", "a\0b", "x" * 100_000):
                await agent.call_tool("explain", {"name": name})
            assert not log.exists()  # a name is no option
            right = sorted((r["latency_us"], i) for i, r in expected.items() if r["status"] == "ok")
            source = {k["id"]: k["source"] for k in kernels}
            said = (await agent.call_tool("compare", {
                "before": source[right[-1][1]], "after": source[right[0][1]]})).structured_content
            assert said["times_faster"] == pytest.approx(right[-1][0] / right[0][0])
            assert said["changes"]
            answers = [said]
            wrong = next(i for i, r in expected.items() if r["status"] == "wrong")
            said = (await agent.call_tool("compare", {
                "before": source[right[-1][1]], "after": source[wrong]})).structured_content
            assert said["after"]["status"] == "wrong" and said["after"]["latency_us"] and "times_faster" not in said
            answers.append((await agent.call_tool("advise", {"source": source[right[-1][1]]})).structured_content)
            assert answers[1]["latency_us"] == pytest.approx(right[-1][0], abs=1e-3) and answers[1]["bottleneck"]
            answers.append((await agent.call_tool("references", {"name": "reference"})).structured_content)
            for text in map(json.dumps, answers):
                assert len(text.encode()) <= MOST_BYTES + 100 and tempfile.gettempdir() not in text
            wrong = await agent.call_tool("evaluate", {"source": "x", "reference": "other"})
            assert wrong.is_error and "there is no reference 'other'" in wrong.content[0].text

    try:
        asyncio.run(judged())
    finally:
        judges.close()


def test_what_an_agent_gets_of_a_kernel_is_of_the_program_that_was_judged(tmp_path):
    """A kernel that is another each time that it is executed is executed once."""
    pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    from nkisim_adapters import mcp_server
    (tmp_path / "reference.py").write_text(REFERENCE)
    judges = mcp_server.EvaluatorPool({"reference": tmp_path / "reference.py"}, target="trn2")
    try:
        judges.judge(None, GOOD)
        inner = judges._evaluator._benches[0]._judge
        before, jobs = inner.recorder, []
        inner.recorder = lambda job, *limits: jobs.append(job["path"]) or before(job, *limits)
        found = mcp_server._advice(judges, GOOD, None)
        assert len(jobs) == 1 and found["latency_us"] > 0
        found = mcp_server._comparison(judges, GOOD, GOOD, None)
        assert len(jobs) == 3 and found["times_faster"] == 1 and found["changes"]
    finally:
        judges.close()


def test_an_answer_is_short_and_says_what_was_cut():
    pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    from nkisim_adapters.mcp_server import MOST_BYTES, shortened_answer

    small = {"status": "ok", "latency_us": 1.5}
    assert shortened_answer(small) == small
    rows = [{"line": f"/tmp/x/k.py:{n}", "text": "y" * 90} for n in range(400)]
    large = {"status": "ok", "rows": rows, "text": "z" * 9000}
    cut = shortened_answer(large, "/tmp/x")
    assert len(json.dumps(cut, indent=2).encode()) <= MOST_BYTES and cut["left_out"] > 0 and cut["status"] == "ok"
    assert cut["rows"] and all(row["line"].startswith("k.py:") for row in cut["rows"]) and cut["text"].endswith("...")


def spoilt(source, draw):
    """A kernel's text with one mistake."""
    lines = source.splitlines()
    n = draw.randrange(len(lines))
    lines[n] = draw.choice(["", lines[n] + "(", lines[n].replace("nl.", "nl.zz", 1), lines[n].replace("(", "(y=1, ", 1),
                            lines[n].replace("128", "256", 1), " " * 8 + "raise ValueError('x' * 9000)"])
    return "\n".join(lines)


def test_every_answer_of_drawn_kernels_is_short_and_names_no_temporary_path(search):
    """As the agent reads it, which is the SDK's text; errors of tools too."""
    mcp = pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    from nkisim_adapters.mcp_command import references_of
    from nkisim_adapters.mcp_server import MOST_BYTES, make
    from variants import variants

    draw = random.Random(20261128)
    right = [k["source"] for k in itertools.islice(variants(), 30)]
    wrong = [spoilt(draw.choice(right), draw) for _ in range(16)]
    calls = [("evaluate", {"source": s}) for s in (*right[:3], *wrong, "x" * 3_000_000, "\u00e9" * 5000, 5)]
    calls += [("advise", {"source": s}) for s in (*draw.sample(right, 2), *wrong[:3])]
    calls += [("compare", dict(zip(("before", "after"), draw.sample([*right, *wrong], 2)))) for _ in range(5)]
    calls += [("explain", {"name": n}) for n in ("operand_memory", "latency", "x" * 5000, "nisa.nc_matmul", "a tile")]
    calls += [("references", {}), ("references", {"name": "reference"}), ("references", {"name": "z" * 9000}),
              ("evaluate", {"source": "x", "reference": "z" * 9000})]
    server, judges = make(references_of([SEARCH / "reference.py"]), target="trn2")

    async def answers():
        async with mcp.Client(server) as agent:
            assert agent.server_info.version == nkisim.__version__
            for tool, words in calls:
                said = await agent.call_tool(tool, words)
                yield tool, said.is_error, "".join(part.text for part in said.content)

    async def judged():
        kinds = set()
        async for tool, failed, text in answers():
            assert text and len(text.encode()) <= MOST_BYTES and tempfile.gettempdir() not in text, (tool, text)
            kinds.add((tool, failed, "left_out" in text))
        return kinds

    try:
        kinds = asyncio.run(judged())
    finally:
        judges.close()
    assert {tool for tool, *_ in kinds} == {"references", "evaluate", "explain", "advise", "compare"}
    assert ("compare", False, True) in kinds and ("references", True, False) in kinds


def test_the_example_of_an_agent_through_the_command():
    pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    lines = example("agent.py").splitlines()
    assert sum(line.startswith(("32-", "64-")) and "->" not in line for line in lines) == 10
    assert "->" in lines[-1] and lines[-1].endswith("times faster")


def test_a_server_needs_a_reference(tmp_path):
    pytest.importorskip("mcp", reason="mcp is not installed (scripts/setup --dev)")
    (tmp_path / "none.py").write_text("x = 1\n")
    assert "no reference" in cli("mcp", "--reference", tmp_path / "none.py", code=3).stderr
    assert "--reference" in cli("mcp", code=2).stderr


# ---- reinforcement learning ------------------------------------------------------------------------
def test_there_are_fifty_tasks_that_differ():
    found = tasks()
    assert len(found) == 50 and len({t.name for t in found}) == 50 and len({t.reference for t in found}) == 50
    assert {tuple(s) for s in SHAPES} == {tuple(map(int, t.name.rsplit("_", 1)[1].split("x"))) for t in found}
    with pytest.raises(ValueError, match="width is 3"):
        found[0].source({"width": 3, "dtype": "float32"})


def test_references_are_what_their_names_say(tmp_path):
    x, z = np.float32([[1, -2], [0.5, 3]]), np.float32([[2, 2], [4, 1]])
    expected = {"exp": [[math.e, math.exp(-2)], [math.exp(0.5), math.exp(3)]], "relu": [[1, 0], [0.5, 3]],
                "scale": [[4, -5], [2.5, 10]], "add": [[3, 0], [4.5, 4]], "product": [[2, -4], [2, 3]],
                "row_sum": [[-1], [3.5]], "row_max": [[1], [3]], "square": [[1, 4], [0.25, 9]], "copy": x,
                "tanh": [[math.tanh(1), math.tanh(-2)], [math.tanh(0.5), math.tanh(3)]]}
    for task in tasks()[::5]:
        path = tmp_path / f"{task.name}.py"
        path.write_text(task.reference)
        module = load(path)
        arguments = (x, z)[:len(module.inputs(0))]
        np.testing.assert_allclose(module.reference(*arguments), expected.pop(task.name.rsplit("_", 1)[0]), 1e-6)
    assert not expected


@pytest.mark.parametrize("record, parts", [
    ({"status": "ok", "latency_us": 5.0, "flags": {}}, (0.1, 0.4, 1.0, 0.0)),
    ({"status": "ok", "latency_us": 1000.0, "flags": {}}, (0.1, 0.4, -1.0, 0.0)),
    ({"status": "ok", "latency_us": 0.1, "flags": {}}, (0.1, 0.4, 4.0, 0.0)),
    ({"status": "wrong", "latency_us": 5.0, "flags": {}}, (0.1, 0.0, 0.0, 0.0)),
    ({"status": "illegal", "latency_us": None, "flags": {}}, (0.0, 0.0, 0.0, 0.0)),
    ({"status": "ok", "latency_us": 5.0, "flags": {"files": ["/etc/passwd"]}}, (0.0, 0.0, 0.0, -1.0)),
])
def test_the_parts_of_a_reward(record, parts):
    assert tuple(parts_of(record, 10.0).values()) == pytest.approx(parts)


def test_an_episode():
    with Environment(steps=2) as environment:
        observation, info = environment.reset(task="scale_256x512")
        assert observation["best_us"] is None and info["baseline_us"] == observation["baseline_us"] > 0
        observation, reward, terminated, truncated, info = environment.step(observation["baseline"])
        assert reward == pytest.approx(0.5) and (terminated, truncated) == (False, False)
        assert observation["best_us"] == observation["baseline_us"] == info["record"]["latency_us"]
        wider = {"width": 512, "dtype": "float32", "engine": "vector"}
        observation, reward, _, truncated, info = environment.step(wider)
        assert truncated and reward > 0.5 and info["parts"]["speed"] == pytest.approx(
            math.log2(observation["baseline_us"] / observation["latency_us"]))
        with pytest.raises(RuntimeError, match="the episode is over"):
            environment.step(wider)
        first, _ = environment.reset(seed=3)
        again, _ = environment.reset(seed=3)
        assert first["task"] == again["task"]
        _, reward, _, _, info = environment.step("import os\nos.listdir('/')\n")
        assert reward == -1.0 and "files" in info["record"]["flags"]


def test_a_random_policy_on_fifty_tasks_gets_the_same_rewards_twice():
    """The example, in two processes."""
    first, second = (example("random_policy.py", "--seed", "5") for _ in range(2))
    assert first == second and len(first.splitlines()) == 51
    rewards = [float(line.split()[1]) for line in first.splitlines()]
    assert len(set(rewards)) > 10 and max(rewards) > 0.5
