"""Tests `nkisim debug --dap` on requests that no editor sends: each gets one answer, and none ends the
server. NKISIM_FUZZED=100000 draws more (CI at night).
"""

import io
import json
import os
import random

import pytest

from nkisim_debug.dap import Server
from running import ROOT

pytestmark = pytest.mark.process
DRAWN = int(os.environ.get("NKISIM_FUZZED", "1000"))
TRACE = str(ROOT / "traces" / "softmax.jsonl")
LAUNCH = ("launch", {"program": TRACE, "stopOnEntry": True})
COMMANDS = sorted(name.removeprefix("on_") for name in dir(Server) if name.startswith("on_"))
NAMES = ("program", "cwd", "args", "target", "config", "stepTime", "stopOnEntry", "source", "path", "breakpoints",
         "line", "endLine", "condition", "hitCondition", "granularity", "threadId", "startFrame", "levels", "start",
         "count", "variablesReference", "expression", "context", "memoryReference", "offset", "linesStartAt1")
VALUES = [None, True, 0, -1, 1, 2, 7, 2**31, 2**63, 10**29, 1.5, 1e308, "", "x", "\x00", "\ud800", "\u00b2", "x[0]",
          "(2**64)**64*" * 5 + "2", "-" * 5000 + "1", "np.load(x)", "x.__class__", "table x", "9" * 200 + "us", "1us",
          TRACE, "/dev/zero", "/", "line", [], [1], ["x"], {}, {"path": 5}, {"path": TRACE}, [{"line": 1}],
          [{"line": "x"}], [5]]


def framed(data):
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


def request(number, command, arguments):
    return framed(json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode())


def served(data):
    """(exit code, messages) of a server that reads `data`."""
    written = io.BytesIO()
    code = Server(io.BytesIO(data), written).serve()
    parts = written.getvalue().split(b"Content-Length: ")[1:]
    return code, [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in parts]


def answers(messages):
    return {m["request_seq"]: m for m in messages if m["type"] == "response"}


@pytest.mark.parametrize("launched", [False, True])
def test_each_request_gets_one_answer(launched):
    """Arguments are drawn; other programs are not launched, since a kernel's file is executed."""
    draw = random.Random(20261128 + launched)
    lines = [request(0, *LAUNCH)] if launched else []
    for number in range(1, DRAWN + 1):
        command = draw.choice([c for c in COMMANDS if c not in ("launch", "disconnect")])
        words = {name: draw.choice(VALUES) for name in draw.sample(NAMES, draw.randrange(6))}
        if draw.random() < 0.5:
            words |= {"variablesReference": draw.randrange(9), "source": {"path": TRACE}, "line": draw.randrange(30),
                      "expression": draw.choice(["x[0]", "x", "table x", "1 // 0", "np.load(1)"])}
        lines.append(request(number, command, words))
    folder = os.getcwd()
    code, messages = served(b"".join(lines))
    found = [m for m in messages if m["type"] == "response"]
    assert code == 0 and [m["request_seq"] for m in found] == list(range(0 if launched else 1, DRAWN + 1))
    assert all(m["success"] or m["message"] for m in found) and os.getcwd() == folder
    succeeded = {m["command"] for m in found if m["success"]}
    assert not launched or {"evaluate", "variables", "stackTrace", "setBreakpoints", "next", "scopes"} <= succeeded


LAUNCHES = [{"program": value} for value in (None, 5, "", "x", "/", "a\x00b", "/dev/null", "x.py", "x.py:f", [])] + [
    {"program": TRACE, name: value} for name, value in (
        ("cwd", "/nonesuch"), ("cwd", [1]), ("cwd", "a\x00"), ("args", 5), ("args", [5]), ("args", ["--nonesuch"]),
        ("target", 5), ("target", "x"), ("config", "/nonesuch"), ("config", {}), ("stepTime", "0us"), ("stepTime", 5),
        ("stepTime", "9" * 400 + "us"), ("stepTime", "999999999s"), ("stopOnEntry", "yes"))]


@pytest.mark.parametrize("words", LAUNCHES, ids=lambda w: "-".join(f"{k}={v!r:.20}" for k, v in w.items()))
def test_a_launch_that_is_none_says_why(words):
    code, messages = served(request(1, "launch", words) + request(2, "threads", {}))
    found = answers(messages)
    assert code == 0 and not found[1]["success"] and found[1]["message"]
    assert found[2]["message"] == "nothing is launched"


@pytest.mark.parametrize("data", [
    b"Content-Length: x\r\n\r\n{}", b"Content-Length: -1\r\n\r\n{}", b"Content-Length: 99999999999\r\n\r\n{}",
    b"Content-Length: 99999999\r\n\r\n{}", b"\x00" * 5000, framed(b""), framed(b"nonsense"), framed(b"\xff\xfe"),
    framed(b"[" * 100_000), framed(b"[1]"), framed(b"5"), framed(b"NaN"), b"X: 1\r\n\r\n"], ids=lambda d: repr(d[:30]))
def test_what_is_no_message_ends_the_server_with_a_reason(data):
    code, messages = served(data + request(2, "threads", {}))
    assert code == 3 and [m["event"] for m in messages] == ["output"] and messages[0]["body"]["output"]


@pytest.mark.parametrize("message", [
    {"seq": 1}, {"seq": 1, "command": 5}, {"seq": 1, "command": "serve"}, {"seq": 1, "command": "_send"},
    {"seq": 1, "command": "threads", "arguments": 5}, {"seq": [], "command": "threads"}])
def test_a_message_that_is_no_request_of_ours_is_refused(message):
    code, messages = served(framed(json.dumps({"type": "request", **message}).encode()) + request(2, "initialize", {}))
    assert code == 0 and [m["success"] for m in messages] == [False, True]


def test_what_fails_after_its_answer_is_said():
    """A condition that has no value ends no session."""
    point = {"source": {"path": TRACE}, "breakpoints": [{"line": n, "condition": "1 // 0"} for n in range(1, 30)]}
    code, messages = served(request(1, *LAUNCH) + request(2, "setBreakpoints", point) + request(3, "continue", {})
                            + request(4, "threads", {}))
    assert code == 0 and answers(messages)[4]["success"]
