"""Implements `neuron-explorer view --disable-ui`: it answers SQL over HTTP on profile tables, on
this machine alone.

    GET  /api/v1/health
    POST /api/v1/db/NAME/_search   {"type": "databaseExplorerQuery", "tableName": T, "query": "SELECT ..."}
                                   {"type": "tableSchema", "tableName": T}, {"type": "listDbFiles"}

The requests are those of AWS's agent skills; the answers' form is not public (assumed): a query gives
{"columns": [...], "rows": [{column: value}]}. DuckDB answers, in a process of its own (sql.py).
Who may ask is in docs/security.md: Host and Origin are this server's own, the body is JSON, and whoever has no token
is this user on this machine.
"""

import hmac
import http.server
import json
import os
import pathlib
import re
import secrets
import struct
import sys
import threading

from nkisim_work.foreign import Fields, Foreign, loads

from . import sql
from .session import BadSession
from .tables import SCHEMA

PORT = 3002
MOST_BODY, MOST_AT_ONCE, MOST_CONNECTIONS, SECONDS = 1 << 20, 4, 64, 10  # bytes of a request, queries; to send one


def schema(name):
    """The columns of a table."""
    if name not in SCHEMA:
        raise Foreign(f"{name!r:.80} is no table", f"one of {', '.join(SCHEMA)}")
    return {"tableName": name, "fields": [{"name": column, "type": kind, "unit": unit, "required": required}
                                          for column, kind, unit, required in SCHEMA[name]]}


def answer(root, name, request):
    """The answer to one request for the profile `name` under `root`. Raises Foreign."""
    folder = pathlib.Path(root) / "profiles" / "global" / f"{name}@latest"
    if not re.fullmatch(r"[\w.-]{1,200}", name) or not folder.is_dir():
        raise Foreign(f"{name!r:.80} is no profile of {root}", "the --display-name of one")
    fields = Fields(request, what="the request")
    kind = fields.text("type", "")
    if kind == "listDbFiles":
        return {"files": [p.name for p in sql.tables(folder).values()]}
    if kind == "tableSchema":
        return schema(fields.text("tableName"))
    if kind == "databaseExplorerQuery":
        return sql.query_in_process(folder, fields.text("query", "", MOST_BODY))
    raise Foreign(f"type is {kind!r:.80}", "databaseExplorerQuery, tableSchema or listDbFiles")


def user_of(peer, own):
    """The number of the user whose socket on this machine a connection comes from, None where the system does not
    say. peer, own: (address, port) of its two ends."""
    def end(place):
        return f"{struct.unpack('=I', bytes(map(int, place[0].split('.'))))[0]:08X}:{place[1]:04X}"

    try:
        with open("/proc/net/tcp", encoding="ascii") as lines:
            rows = [line.split() for line in lines]
        return next((int(row[7]) for row in rows if row[1:3] == [end(peer), end(own)]), None)
    except (OSError, ValueError, IndexError):
        return None


class _Refused(Exception):
    """The request is answered with a code and a message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class _Handler(http.server.BaseHTTPRequestHandler):
    root, token, slots = ".", "", threading.Semaphore(MOST_AT_ONCE)
    timeout = SECONDS

    def _say(self, code, what):
        data = json.dumps(what, default=str).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _check(self):
        """Raises _Refused unless it is this machine's own user who asks this server, and no page of a browser."""
        port = self.server.server_port
        own = {f"{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in own:
            raise _Refused(403, f"the request is for another host; Host localhost:{port} is required")
        if any(origin.removeprefix("http://") not in own for origin in origins):
            raise _Refused(403, "the request comes from a page of another origin")
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode(), self.token.encode()):
            return
        if user_of(self.client_address, self.connection.getsockname()) not in (os.geteuid(), 0):
            raise _Refused(401, "this is another user's server; the header 'Authorization: Bearer TOKEN' with the "
                                "token that it printed is required")

    def _body(self):
        """The JSON of a request."""
        if self.headers.get_content_type() != "application/json" or "Content-Type" not in self.headers:
            raise _Refused(415, "Content-Type application/json is required")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length) or "Transfer-Encoding" in self.headers:
            raise _Refused(411, "a Content-Length is required")
        if int(length) > MOST_BODY:
            raise _Refused(413, f"the request has {length} bytes; at most {MOST_BODY} are required")
        return loads(self.rfile.read(int(length)), MOST_BODY)

    def _answered(self, what):
        self.close_connection = True
        try:
            self._check()
            self._say(200, what())
        except _Refused as problem:
            self._say(problem.code, {"error": str(problem)})
        except BadSession as problem:
            self._say(500, {"error": str(problem)})
        except (Foreign, OSError) as problem:
            self._say(400, {"error": str(problem)})

    def do_GET(self):
        if self.path != "/api/v1/health":
            return self._answered(lambda: self._none())
        return self._answered(lambda: {"status": "healthy"})

    def _none(self):
        raise _Refused(404, "not found")

    def do_POST(self):
        place = re.fullmatch(r"/api/v1/db/([^/]+)/_search", self.path)

        def said():
            if place is None:
                self._none()
            request = self._body()
            if not self.slots.acquire(timeout=SECONDS):
                raise _Refused(503, f"{MOST_AT_ONCE} queries are under way")
            try:
                return answer(self.root, place[1], request)
            finally:
                self.slots.release()

        return self._answered(said)

    def log_message(self, *_):
        """Requests are not logged."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def verify_request(self, *_):
        """Connections beyond these are closed: whoever holds them open keeps no more threads."""
        return threading.active_count() <= MOST_CONNECTIONS

    def handle_error(self, *_):
        """The other end of one connection is gone."""


def serve(root, port=PORT):
    """Answers until it is stopped; an error if the port is taken."""
    sql.duckdb()
    token = secrets.token_urlsafe(24)
    handler = type("Handler", (_Handler,), {"root": root, "token": token})
    try:
        server = _Server(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as problem:
        raise BadSession(f"port {port} of this machine: {getattr(problem, 'strerror', None) or problem}") from None
    print(f"profiles of {root}: http://localhost:{port}/api/v1", flush=True)
    print(f"other users of this machine need: Authorization: Bearer {token}", file=sys.stderr, flush=True)
    with server:
        server.serve_forever()
