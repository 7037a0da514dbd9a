"""Tests the HTTP access to the viewer's tables: permissions, input, limits of a query (docs/security.md)."""

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading

import pyarrow
import pyarrow.parquet
import pytest

from nkisim_profile import serve, sql
from nkisim_profile.session import BadSession
from nkisim_work.foreign import Foreign

pytestmark = pytest.mark.process
START = "import sys; from nkisim_profile import serve; serve.serve(sys.argv[1], int(sys.argv[2]))"


def table(folder, name, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns or {"a": [1, 2]}), folder / f"{name}.parquet")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    folder = root / "profiles" / "global" / "k@latest"
    folder.mkdir(parents=True)
    table(folder, "Summary")
    return root


@pytest.fixture(scope="module")
def server(root):
    """(port, token) of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", START, root, str(port)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    yield port, process.stderr.readline().split()[-1]
    process.kill()
    process.communicate()


SELECT = json.dumps({"type": "databaseExplorerQuery", "query": "select 42 as a"})
JSON = {"Content-Type": "application/json"}


def post(port, body, path="/api/v1/db/k/_search", method="POST", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Host": f"localhost:{port}", **JSON, **(headers or {})})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_users_own_request_is_answered(server):
    assert post(server[0], SELECT) == (200, b'{"columns": ["a"], "rows": [{"a": 42}]}')
    assert post(server[0], SELECT, headers={"Authorization": f"Bearer {server[1]}"})[0] == 200
    assert post(server[0], SELECT, headers={"Origin": f"http://localhost:{server[0]}"})[0] == 200
    assert post(server[0], None, "/api/v1/health", "GET") == (200, b'{"status": "healthy"}')


@pytest.mark.parametrize("code, change", [
    (403, {"Host": "elsewhere.example:3002"}), (403, {"Host": "localhost"}), (403, {"Host": ""}),
    (403, {"Origin": "http://elsewhere.example"}), (403, {"Origin": "null"}), (415, {"Content-Type": "text/plain"}),
    (415, {"Content-Type": "application/x-www-form-urlencoded"}), (411, {"Content-Length": "-1"}),
    (411, {"Content-Length": "x"}), (413, {"Content-Length": "99999999"}),
    (411, {"Transfer-Encoding": "chunked", "Content-Length": "3"})])
def test_what_a_page_elsewhere_sends_is_refused(code, change, server):
    status, body = post(server[0], SELECT, headers=change)
    assert status == code and set(json.loads(body)) == {"error"}
    if "Content" not in str(change) and "Transfer" not in str(change):
        assert post(server[0], None, "/api/v1/health", "GET", headers=change)[0] == code


def test_another_user_needs_the_token(monkeypatch, root, server):
    """The system says whose socket a connection comes from."""
    here = socket.create_connection(("127.0.0.1", server[0]))
    assert serve.user_of(here.getsockname(), here.getpeername()) == os.geteuid()
    here.close()
    assert serve.user_of(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    monkeypatch.setattr(serve, "user_of", lambda *_: 12345)
    handler = type("Handler", (serve._Handler,), {"root": root, "token": "the-token"})
    with serve._Server(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        port = other.server_port
        for token, code in (("", 401), ("x", 401), ("the-token ", 401), ("the-token", 200)):
            assert post(port, SELECT, headers={"Authorization": f"Bearer {token}x"[:-1]})[0] == code
        other.shutdown()


@pytest.mark.parametrize("text, said", [
    ("select a.range, b.range from range(100000) a, range(100000) b", ""),
    ("with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t", "more than 2 s"),
    ("select repeat('x', 3000000000)", ""), ("select * from range(200000)", "more than 100000 rows"),
    ("select * from read_text('/etc/hostname')", "disabled"), ("select 1; copy (select 1) to 'x.csv'", ""),
    ("install httpfs", "SELECT"), ("select * from 'k.parquet'", ""), ("select", "")])
def test_a_query_ends(text, said, root, monkeypatch):
    if "more than 2 s" in said or not said:  # others end by themselves, late on a busy machine
        monkeypatch.setattr(sql, "SECONDS", 2)
    with pytest.raises(Foreign, match=said or "."):
        serve.answer(root, "k", {"type": "databaseExplorerQuery", "query": text})


def test_a_files_name_is_no_sql(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "profiles" / "global" / "k@latest"
    folder.mkdir(parents=True)
    for name in ('A" (i int); COPY (SELECT 7) TO $$made.csv$$; CREATE TABLE "Z', "Instruction' or '1'='1", "x y"):
        table(folder, name)
    table(folder, "Summary", **{'a"; select 1': [3]})
    assert serve.answer(tmp_path, "k", {"type": "listDbFiles"}) == {"files": ["Summary.parquet"]}
    found = serve.answer(tmp_path, "k", {"type": "databaseExplorerQuery", "query": "select * from Summary"})
    assert found["rows"] == [{'a"; select 1': 3}] and not (tmp_path / "made.csv").exists()


@pytest.mark.parametrize("request_, said", [
    ([], "list"), ({}, "type is ''"), ({"type": 5}, "type is 5"),
    ({"type": "databaseExplorerQuery", "query": 5}, "query"),
    ({"type": "tableSchema"}, "tableName"), ({"type": "tableSchema", "tableName": []}, "tableName")])
def test_fields_have_their_kinds(request_, said, root):
    with pytest.raises(Foreign, match=said.replace("'", ".")):
        serve.answer(root, "k", request_)


@pytest.mark.parametrize("name", ["..", "k/../k", "none", "", "k\n", "x" * 300])
def test_a_profile_is_below_the_root(name, root):
    with pytest.raises(Foreign):
        serve.answer(root, name, {"type": "listDbFiles"})


def test_random_requests_are_answered_or_closed(server):
    """Seeds are in order; each answer is HTTP with JSON, and the server is there afterwards."""
    draw = random.Random(20261126)
    lines = ["Host: localhost:{port}", "Content-Length: 5", "Content-Length: -1", "Content-Length: " + "9" * 20,
             "Transfer-Encoding: chunked", "Origin: null", "Content-Type: application/json", "Content-Type: x/y",
             "Authorization: Bearer \xff", "X: " + "y" * 70000, "Expect: 100-continue", "no colon", ": empty", "\0: \0"]
    bodies = ["", "{}", "[", SELECT, "[" * 5000, '{"type": 1e999}', "\xff\xfe", '{"type": "tableSchema"}', "9" * 5000]
    for _ in range(300):
        verb = draw.choice(["GET", "POST", "PUT", "X" * 70000, "", "POST\0"])
        path = draw.choice(["/api/v1/db/k/_search", "/api/v1/db/%2e%2e/_search", "/" + "a" * 70000, "", "/", "//", "*"])
        head = [f"{verb} {path} HTTP/{draw.choice(['1.1', '1.0', '9', ''])}",
                *(line.replace("{port}", str(server[0])) for line in draw.sample(lines, draw.randint(0, 6)))]
        if draw.random() < 0.5:
            head[1:1] = [f"Host: localhost:{server[0]}", "Content-Type: application/json"]
        body = draw.choice(bodies)
        if draw.random() < 0.7:
            head.append(f"Content-Length: {len(body)}")
        with socket.create_connection(("127.0.0.1", server[0]), timeout=30) as peer:
            data = b""
            try:
                peer.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1"))
                peer.shutdown(socket.SHUT_WR)
                while more := peer.recv(1 << 16):
                    data += more
            except OSError:  # it has hung up
                pass
        assert not data or data.startswith((b"HTTP/1.0 ", b"<!DOCTYPE", b'{')), data[:200]  # HTTP/0.9 has no header
        assert b"Traceback" not in data
    assert post(server[0], SELECT)[0] == 200


def test_a_taken_port_is_reported(server):
    with pytest.raises(BadSession, match="port"):
        serve.serve(".", server[0])
    with pytest.raises(BadSession, match="port"):
        serve.serve(".", 1 << 20)
