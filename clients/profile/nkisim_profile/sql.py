"""Runs SQL queries over the tables of a profile by DuckDB, each in a process of its own. The
process has limits of time and memory, reads those tables and writes nothing.
"""

import json
import pathlib
import re
import resource
import subprocess
import sys

from nkisim_work.foreign import Foreign

from .session import BadSession
from .tables import SCHEMA

SECONDS, MEMORY, ROWS, ANSWER = 30, 2 << 30, 100_000, 64 << 20
_START = "import sys; sys.path[:] = {path!r}; from nkisim_profile.sql import main; main()"


def duckdb():
    try:
        import duckdb
    except ImportError:
        raise BadSession("SQL needs the Python package duckdb: pip install duckdb") from None
    return duckdb


def tables(folder):
    """{name: file} of a profile's tables: of those that a profile has, whatever else is in the folder."""
    found = {p.stem: p for p in sorted(pathlib.Path(folder).glob("*.parquet"))}
    return {name: found[name] for name in SCHEMA if name in found}


def query(folder, text):
    """The answer of a SELECT over a profile's tables. Raises Foreign."""
    if not re.match(r"\s*(select|with)\b", text, re.IGNORECASE):
        raise Foreign("another statement", "a SELECT")
    base = duckdb().connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
                                    "memory_limit": f"{MEMORY // 2} B", "threads": "2", "temp_directory": ""})
    for name, path in tables(folder).items():
        base.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_parquet(?)', [str(path)])
    base.execute("SET enable_external_access = false")
    base.execute("SET lock_configuration = true")
    found = base.execute(text)
    columns = [c[0] for c in found.description]
    rows = found.fetchmany(ROWS + 1)
    if len(rows) > ROWS:
        raise Foreign(f"more than {ROWS} rows", "a LIMIT")
    return {"columns": columns, "rows": [dict(zip(columns, row)) for row in rows]}


def main():
    """In the process of a query: [folder, text] on standard input, the answer on standard output."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        said = query(*json.load(sys.stdin))
    except MemoryError:
        said = {"error": f"the query took more than {MEMORY >> 30} GiB"}
    except Exception as problem:  # of DuckDB's many kinds
        said = {"error": str(problem)[:4000]}
    text = json.dumps(said, default=str)
    if len(text) > ANSWER:
        text = json.dumps({"error": f"an answer of {len(text)} bytes; at most {ANSWER} are required"})
    sys.stdout.write(text)


def query_in_process(folder, text):
    """The same, by a process that ends after SECONDS. Raises Foreign, BadSession."""
    duckdb()
    words = [sys.executable, "-I", "-c", _START.format(path=[p for p in sys.path if p])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            said, _ = process.communicate(json.dumps([str(folder), text]).encode(), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Foreign(f"a query that takes more than {SECONDS} s", "a shorter one") from None
        finally:
            process.kill()
    try:
        found = json.loads(said)
    except ValueError:
        raise Foreign(f"a query that takes more than {MEMORY >> 30} GiB", "a smaller one") from None
    if "error" in found:
        raise Foreign(found["error"], "another query")
    return found
