"""Implements a client of the Debug Adapter Protocol for tests, written from its specification."""

import base64
import json
import os
import subprocess

from running import PROGRAM


class Client:
    """Starts `nkisim debug --dap`. Every message that comes is kept in `log`."""

    def __init__(self, **options):
        self.process = subprocess.Popen([PROGRAM, "debug", "--dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        **options)
        self.sequence, self.events, self.log = 0, [], []
        self.capabilities = self.request("initialize", adapterID="nkisim", clientID="test", linesStartAt1=True,
                                         columnsStartAt1=True, pathFormat="path")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def _read(self):
        length = None
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            assert name == b"Content-Length"
            length = int(value)
        assert length is not None, "the server has gone"
        message = json.loads(self.process.stdout.read(length))
        self.log.append(message)
        return message

    def ask(self, command, **arguments):
        """The whole response; events before it are kept."""
        self.sequence += 1
        message = {"seq": self.sequence, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()
        while (message := self._read())["type"] == "event":
            self.events.append(message)
        assert message["type"] == "response" and message["request_seq"] == self.sequence
        assert message["command"] == command
        return message

    def request(self, command, **arguments):
        response = self.ask(command, **arguments)
        assert response["success"], response
        return response.get("body", {})

    def wait(self, *names):
        """The next event of one of these names; others are dropped."""
        while True:
            event = self.events.pop(0) if self.events else self._read()
            if event["event"] in names:
                return event

    def launch(self, program, breakpoints=None, **words):
        """Launches, sets breakpoints {file: [line, ...]} and waits for the first stop: (event, breakpoints)."""
        self.request("launch", program=os.fspath(program), **words)
        self.wait("initialized")
        points = []
        for file, lines in (breakpoints or {}).items():
            points += self.request("setBreakpoints", source={"path": os.fspath(file)},
                                   breakpoints=[{"line": n} for n in lines])["breakpoints"]
        self.request("setExceptionBreakpoints", filters=[])
        self.request("configurationDone")
        return self.wait("stopped", "terminated"), points

    def move(self, command, **words):
        self.request(command, threadId=1, **words)
        return self.wait("stopped", "terminated")

    def frames(self, thread=1):
        return self.request("stackTrace", threadId=thread)["stackFrames"]

    def scopes(self):
        return {s["name"]: s["variablesReference"]
                for s in self.request("scopes", frameId=self.frames()[0]["id"])["scopes"]}

    def variables(self, reference, **words):
        return self.request("variables", variablesReference=reference, **words)["variables"]

    def evaluate(self, expression, context="watch"):
        return self.request("evaluate", expression=expression, context=context)["result"]

    def memory(self, name, count):
        body = self.request("readMemory", memoryReference=name, count=count)
        assert body.get("unreadableBytes", 0) == 0
        return base64.b64decode(body["data"])
