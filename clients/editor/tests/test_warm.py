"""Tests the language server's analysis process: it is ended when it exceeds its time, and the next text is analysed."""

import json
import subprocess
import sys
import threading

import pytest

pytestmark = pytest.mark.process


def test_a_text_has_its_seconds(tmp_path):
    def job(number, text, seconds):
        path = str(tmp_path / "k.py")
        return json.dumps({"id": number, "path": path, "text": text, "seconds": seconds}).encode() + b"\n"

    code = "from nkisim_editor.warm import Warm; Warm(0, 1).serve()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as server:
        ends = threading.Timer(60, server.kill)
        ends.start()
        server.stdin.write(job(1, "while True: pass\n", 1.5))
        server.stdin.flush()
        assert json.loads(server.stdout.readline()) == {"id": 1, "stage": "end", "why": "timeout"}
        server.stdin.write(job(2, "x = 1\n", 60))
        server.stdin.flush()
        while (answer := json.loads(server.stdout.readline()))["stage"] != "end":
            assert answer["id"] == 2
        assert answer == {"id": 2, "stage": "end", "why": ""}
        server.stdin.close()
        assert server.wait(20) == 0
        ends.cancel()
