"""Serves the Debug Adapter Protocol to one client on standard input and output.

The run is simulated when it is launched; from then on every request is a look at an instant of it. A thread stands for
what has just ended, and one for each engine. All of them stop together.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from nkisim import Error
from nkisim_work.foreign import MOST_BYTES, Fields, Foreign, loads

from .engine import Debugger, time_of
from .lines import doing
from .tile import Tile
from .watch import BadExpression

CAPABILITIES = {
    "supportsConfigurationDoneRequest": True, "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True, "supportsEvaluateForHovers": True, "supportsStepBack": True,
    "supportsSteppingGranularity": True, "supportsReadMemoryRequest": True, "supportsTerminateRequest": True,
    "supportsBreakpointLocationsRequest": True}
STEP_TIME = "1us"
MAIN = 1  # the thread of what has just ended
MANY = 64  # tensors that an editor shows without being asked
MOST_HEADER = 4096  # bytes of a line of a message's header


class Refused(Exception):
    """A request that cannot be served; says why."""


REFUSALS = (Refused, Error, BadExpression, Foreign)


class Server:
    def __init__(self, read: BinaryIO, write: BinaryIO) -> None:
        self._read, self._write, self._sequence = read, write, 0
        self._debugger: Debugger | None = None
        self._handles: list[Any] = []   # of variables, valid until the next stop
        self._stop_on_entry, self._done, self._step_time, self._one_based = False, False, 0, True

    # ---- messages

    def _send(self, message):
        self._sequence += 1
        body = json.dumps({"seq": self._sequence, **message}).encode()
        self._write.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._write.flush()

    def event(self, name: str, **body: Any) -> None:
        self._send({"type": "event", "event": name, "body": body})

    def messages(self):
        """The client's requests until it goes. Raises Foreign for what is no message: where the next begins is not
        known then."""
        while True:
            length = ""
            while (line := self._read.readline(MOST_HEADER)).strip():
                name, _, value = line.decode("latin-1").partition(":")
                if name.strip().lower() == "content-length":
                    length = value.strip()
            if not line:
                return
            if not (length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= MOST_BYTES):
                raise Foreign(f"Content-Length is {length[:40]!r}", f"a number of at most {MOST_BYTES}")
            message = Fields(loads(self._read.read(int(length))), what="a message")
            if message.get("type") == "request":
                yield message

    def serve(self) -> int:
        """Answers requests until the client goes: exit code 0; 3 after what is no message."""
        try:
            for message in self.messages():
                self._serve(message)
                if self._done:
                    break
        except Foreign as problem:
            self._say(problem)
            return 3
        return 0

    def _say(self, problem):
        self.event("output", category="important", output=f"{problem}\n")

    def _serve(self, message):
        after: list[Callable[[], None]] = []
        answer = {"type": "response", "request_seq": message.get("seq"), "command": message.get("command"),
                  "success": True}
        try:
            name = message.text("command")
            handler = getattr(self, f"on_{name}", None)
            if handler is None:
                raise Refused(f"{name[:40]} is not supported")
            body = handler(Fields(message.get("arguments") or {}, what="arguments"), after)
            if body is not None:
                answer["body"] = body
        except REFUSALS as problem:
            # For "showUser" an editor opens a window. It evaluates all that the mouse rests on: no window for that.
            error = {"id": 1, "format": str(problem).replace("{", "("), "showUser": answer["command"] != "evaluate"}
            answer |= {"success": False, "message": str(problem), "body": {"error": error}}
        self._send(answer)
        try:
            for then in after:
                then()
        except REFUSALS as problem:
            self._say(problem)

    @property
    def debugger(self) -> Debugger:
        if self._debugger is None:
            raise Refused("nothing is launched")
        return self._debugger

    # ---- begin and end

    def on_initialize(self, words, _):
        self._one_based = words.truth("linesStartAt1", True)
        return CAPABILITIES

    def on_launch(self, words, after):
        program = words.text("program", "")
        if not program:
            raise Refused("launch: program is missing; KERNEL.py:FUNCTION, KERNEL.py or a trace is required")
        self._stop_on_entry = words.truth("stopOnEntry")
        time = words.text("stepTime", STEP_TIME)
        self._step_time = time_of(time) or 0
        if not self._step_time:
            raise Refused(f"launch: stepTime is {time!r:.40}; a time such as 1us is required")
        try:
            if words.get("cwd"):
                os.chdir(words.text("cwd"))
            self._debugger = Debugger(program, words.texts("args"), target=words.text("target", ""),
                                      config=words.text("config", ""))
        except (OSError, ValueError) as problem:  # a folder that cannot be used, a name that is none
            raise Refused(f"launch: {problem}") from None
        after.append(lambda: self.event("initialized"))

    def on_configurationDone(self, _words, after):
        if self._stop_on_entry:
            after.append(lambda: self._stopped("entry"))
        else:
            after.append(lambda: self._proceed(False))

    def on_disconnect(self, _words, _after):
        self._done = True

    def on_terminate(self, _words, after):
        after.append(lambda: self.event("terminated"))

    # ---- breakpoints

    def _line(self, line, out=False):
        return line if self._one_based else line - 1 if out else line + 1

    def on_setBreakpoints(self, words, _):
        source = Fields(words.get("source"), what="source")
        path = source.text("path", "") or source.text("name", "")
        d, answers = self.debugger, []
        if d.file_number(path) is not None:
            d.clear(path)
        points = words.get("breakpoints") or []
        if not isinstance(points, list):
            raise Refused("breakpoints is no list")
        for wanted in (Fields(point, what="a breakpoint") for point in points):
            line = wanted.integer("line")
            try:
                skipped = wanted.text("hitCondition", "").strip() or "1"
                if not (skipped.isascii() and skipped.isdigit() and 0 < int(skipped[:10]) and len(skipped) < 10):
                    raise Refused(f"hitCondition is {skipped!r:.40}; a whole number is required")
                point = d.add(path, self._line(line), wanted.text("condition", ""), int(skipped) - 1)
                answers.append({"id": point.number, "verified": True, "line": self._line(point.line, True)})
            except (Error, Refused) as problem:
                answers.append({"verified": False, "message": str(problem), "line": line})
        return {"breakpoints": answers}

    def on_setExceptionBreakpoints(self, _words, _after):
        return {"breakpoints": []}

    def on_breakpointLocations(self, words, _):
        line = words.integer("line")
        first, last = self._line(line), self._line(words.integer("endLine", line))
        lines = self.debugger.lines_of(Fields(words.get("source"), what="source").text("path", ""))
        return {"breakpoints": [{"line": self._line(at, True)} for at in lines if first <= at <= last]}

    # ---- steps

    def _stopped(self, reason, **more):
        self._handles = []
        self.event("stopped", reason=reason, threadId=MAIN, allThreadsStopped=True, text=self.debugger.where(), **more)

    def _proceed(self, backwards):
        d, before = self.debugger, self.debugger.time
        hits = d.proceed(backwards)
        if hits:
            self._stopped("breakpoint", hitBreakpointIds=[point.number for point in hits])
        elif d.time == before and not backwards:
            self.event("terminated")
        elif d.error and not backwards:
            self._stopped("exception", description=d.error)
        else:  # one goes backwards from here
            self._stopped("pause", description="the begin of the run" if backwards else "the end of the run")

    def on_continue(self, _words, after):
        after.append(lambda: self._proceed(False))
        return {"allThreadsContinued": True}

    def on_reverseContinue(self, _words, after):
        after.append(lambda: self._proceed(True))

    def _step(self, move, after):
        def then():
            move()
            self._stopped("step")
        after.append(then)

    def on_next(self, words, after):
        d = self.debugger
        self._step(d.step if words.get("granularity") == "instruction" else d.step_line, after)

    def on_stepIn(self, _words, after):
        self._step(self.debugger.step, after)

    def on_stepOut(self, _words, after):
        self._step(lambda: self.debugger.step_time(self._step_time), after)

    def on_stepBack(self, words, after):
        d = self.debugger
        lines = words.get("granularity") == "line"
        self._step(lambda: d.step_line(backwards=True) if lines else d.step(-1), after)

    def on_pause(self, _words, after):
        after.append(lambda: self._stopped("pause"))

    # ---- what there is

    def on_threads(self, _words, _after):
        names = [f"{row['engine']} of core {row['core']}" for row in self.debugger.state["engines"]]
        return {"threads": [{"id": MAIN, "name": "complete"},
                            *({"id": MAIN + 1 + n, "name": name} for n, name in enumerate(names))]}

    def on_stackTrace(self, words, _):
        d, thread = self.debugger, words.integer("threadId", MAIN)
        if thread == MAIN:
            rows = [(f"{done['instruction']} ({done['engine']}, core {done['core']}) is complete",
                     (done["file"], done["line"])) for done in reversed(d.just_complete())]
            rows = rows or [(f"{d.at_us:.3f} us", ("", 0))]
        else:
            engines = d.state["engines"]
            if not 0 <= thread - MAIN - 1 < len(engines):
                raise Refused(f"no thread has the number {thread}")
            row = engines[thread - MAIN - 1]
            at = row["runs"] or row["next"]
            rows = [(doing(row, place=False), d.place(at["source"]) if at else ("", 0))]
        frames = []
        for n, (name, (file, line)) in enumerate(rows):
            frame = {"id": thread * 10000 + n, "name": name, "line": self._line(line, True) if line else 0, "column": 1}
            if file:
                frame["source"] = {"name": os.path.basename(file), "path": file}
            frames.append(frame)
        first = words.integer("startFrame", 0)
        count = words.integer("levels", 0) or len(frames)
        return {"stackFrames": frames[first:first + count], "totalFrames": len(frames)}

    def _handle(self, what):
        self._handles.append(what)
        return len(self._handles)

    def on_scopes(self, _words, _after):
        d = self.debugger
        spaces = {"SBUF and PSUM": [n for n, t in d.tensors.items() if t[0] != "hbm"],
                  "HBM": [n for n, t in d.tensors.items() if t[0] == "hbm"]}
        scopes = [{"name": name, "variablesReference": self._handle(("tiles", names)), "namedVariables": len(names),
                   "expensive": len(names) > MANY} for name, names in spaces.items() if d.run.has_values]
        return {"scopes": scopes + [{"name": name, "variablesReference": self._handle((name, None)), "expensive": False}
                                    for name in ("Engines", "Semaphores", "Under way")]}

    def _tile_variable(self, tile: Tile, name: str) -> dict[str, Any]:
        rows = tile.array.shape[0] if tile.array.ndim else 0
        return {"name": name, "value": str(tile), "type": tile.dtype, "evaluateName": f'tile["{tile.name}"]',
                "variablesReference": self._handle((tile, ())) if rows else 0, "indexedVariables": rows,
                "memoryReference": tile.name}

    def on_variables(self, words, _):
        number = words.integer("variablesReference")
        if not 0 < number <= len(self._handles):
            raise Refused("what is asked for is of an earlier stop")
        what, detail = self._handles[number - 1]
        first, count = words.integer("start", 0), words.integer("count", 0) or None
        if isinstance(what, Tile):
            rows = self._elements(what, detail, first, count)
        elif what == "tiles":
            names = detail[first:][:count]
            rows = [self._tile_variable(tile, name) for name, tile in self.debugger.tiles(names).items()]
        else:
            rows = [{"name": name, "value": value, "variablesReference": 0} for name, value in self._facts(what)]
        return {"variables": rows}

    def _elements(self, tile, index, first, count):
        shape, rows = tile.array.shape, []
        last = shape[len(index)] if count is None else min(first + count, shape[len(index)])
        for n in range(first, last):
            at = (*index, n)
            if len(at) == len(shape):
                rows.append({"name": f"[{n}]", "value": tile.element(at), "type": tile.dtype, "variablesReference": 0})
            else:
                part = Tile(tile.name, tile.space, tile.core, tile.dtype, tile.array[at], tile.valid[at], [])
                rows.append({"name": f"[{n}]", "value": str(part), "variablesReference": self._handle((tile, at)),
                             "indexedVariables": shape[len(at)]})
        return rows

    def _facts(self, what):
        state = self.debugger.state
        if what == "Engines":
            for row in state["engines"]:
                yield f"{row['engine']} of core {row['core']}", doing(row)
        elif what == "Semaphores":
            for row in state["semaphores"]:
                yield f"S[{row['semaphore']}] of core {row['core']}", str(row["value"])
        else:
            for n, row in enumerate(state["under_way"]):
                yield f"[{n}]", f"{row['instruction']} {row['source']} since {row['start_us']:.3f} us"

    def on_evaluate(self, words, _):
        text, d = words.text("expression").strip(), self.debugger
        verb, _, name = text.partition(" ")
        name = name.strip()
        if words.get("context") == "repl" and verb in ("table", "picture") and name in d.tensors:
            return {"result": d.tile(name).shown(verb), "variablesReference": 0}
        plain = text.removeprefix('tile["').removesuffix('"]')
        if plain in d.tensors:
            variable = self._tile_variable(d.tile(plain), plain)
            return {"result": variable["value"],
                    **{k: v for k, v in variable.items() if k not in ("name", "value", "evaluateName")}}
        return {"result": str(d.evaluate(text)), "variablesReference": 0}

    def on_readMemory(self, words, _):
        name = words.text("memoryReference")
        if name not in self.debugger.tensors:
            raise Refused(f"{name} is not a tensor of the program")
        data = self.debugger.tile(name).array.tobytes()
        first, count = words.integer("offset", 0), words.integer("count")
        part = data[first:first + count]
        return {"address": hex(first), "data": base64.b64encode(part).decode(),
                "unreadableBytes": count - len(part)}


def serve(read: BinaryIO, write: BinaryIO) -> int:
    return Server(read, write).serve()
