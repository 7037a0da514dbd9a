"""`neuron-explorer view --disable-ui`: tables of profiles, answered as SQL over HTTP on this machine alone.

    GET  /api/v1/health
    POST /api/v1/db/NAME/_search   {"type": "databaseExplorerQuery", "tableName": T, "query": "SELECT ..."}
                                   {"type": "tableSchema", "tableName": T}, {"type": "listDbFiles"}

The requests are those of AWS's agent skills; the answers' form is not public (assumed): a query gives
{"columns": [...], "rows": [{column: value}]}. DuckDB answers, which must not write or read other files.
"""

import http.server
import json
import pathlib
import re

from .session import BadSession
from .tables import SCHEMA

PORT = 3002


def duckdb():
    try:
        import duckdb
    except ImportError:
        raise BadSession("SQL needs the Python package duckdb: pip install duckdb") from None
    return duckdb


def tables(folder):
    """{name: file} of a profile's tables."""
    return {p.stem: p for p in sorted(pathlib.Path(folder).glob("*.parquet"))}


def query(folder, text):
    """The answer of a SELECT over a profile's tables."""
    if not re.match(r"\s*(select|with)\b", text, re.IGNORECASE):
        raise ValueError("only SELECT is taken")
    engine = duckdb()
    base = engine.connect()
    for name, path in tables(folder).items():
        base.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_parquet(?)', [str(path)])
    base.execute("SET enable_external_access = false")
    base.execute("SET lock_configuration = true")
    found = base.execute(text)
    columns = [c[0] for c in found.description]
    return {"columns": columns, "rows": [dict(zip(columns, row)) for row in found.fetchall()]}


def schema(name):
    """The columns of a table."""
    if name not in SCHEMA:
        raise ValueError(f"{name!r} is no table; {', '.join(SCHEMA)} are")
    return {"tableName": name, "fields": [{"name": column, "type": kind, "unit": unit, "required": required}
                                          for column, kind, unit, required in SCHEMA[name]]}


def answer(root, name, request):
    """The answer to one request for the profile NAME under `root`."""
    folder = pathlib.Path(root) / "profiles" / "global" / f"{name}@latest"
    if not re.fullmatch(r"[\w.-]+", name) or not folder.is_dir():
        raise ValueError(f"{name!r} is no profile of {root}")
    kind = request.get("type")
    if kind == "listDbFiles":
        return {"files": [p.name for p in tables(folder).values()]}
    if kind == "tableSchema":
        return schema(request.get("tableName"))
    if kind == "databaseExplorerQuery":
        return query(folder, request.get("query", ""))
    raise ValueError(f"type is {kind!r}; databaseExplorerQuery, tableSchema or listDbFiles is required")


class _Handler(http.server.BaseHTTPRequestHandler):
    root = "."

    def _say(self, code, what):
        data = json.dumps(what, default=str).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        known = self.path == "/api/v1/health"
        self._say(200 if known else 404, {"status": "healthy"} if known else {"error": "not found"})

    def do_POST(self):
        place = re.fullmatch(r"/api/v1/db/([^/]+)/_search", self.path)
        if place is None:
            return self._say(404, {"error": "not found"})
        try:
            length = int(self.headers.get("Content-Length") or 0)
            request = json.loads(self.rfile.read(length))
            self._say(200, answer(self.root, place[1], request if isinstance(request, dict) else {}))
        except BadSession as problem:
            self._say(500, {"error": str(problem)})
        except Exception as problem:  # of the request, or of its SQL
            self._say(400, {"error": str(problem)})
        return None

    def log_message(self, *_):
        """Requests are not logged."""


def serve(root, port=PORT):
    """Answers until it is stopped; an error if the port is taken."""
    duckdb()
    handler = type("Handler", (_Handler,), {"root": root})
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as problem:
        raise BadSession(f"port {port} of this machine: {problem.strerror}") from None
    print(f"profiles of {root}: http://localhost:{port}/api/v1", flush=True)
    with server:
        server.serve_forever()
