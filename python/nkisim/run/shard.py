"""Simulates some of the ranks of a run (a shard) in a process of its own: main() on this machine,
or serve_at() as a task of a Dask worker. It runs what it is sent. It talks only to the process
that sent it and, on one machine, to those that this one has given it a connection to.

Messages here are tuples whose first item is their kind. Dask workers send ("meet", all, each), and get the answer
[(all, mine)]. The other messages have no answer: ("print", rank, line), ("done", result), ("failed", parts of an
Error), and ("lost", the shard that has ended or given up).
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
from multiprocessing.connection import Client, Connection
from multiprocessing.reduction import recv_handle
from typing import Any

from .. import _core
from ..values.errors import Error
from .undefined import Found, warning_collector

#: The parts of an Error that go from one process to another.
ERROR_PARTS = ("message", "code", "instruction", "trace_line", "kernel_file", "kernel_line", "rule",
               "operand", "found", "required")


def serve(connection: Connection) -> None:
    """Does jobs until the connection is closed."""
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        try:
            answer = "done", _run(job, connection)
        except _Lost as lost:
            answer = "lost", lost.shard
        except Error as problem:
            answer = "failed", {name: getattr(problem, name) for name in ERROR_PARTS}
        except (EOFError, OSError):  # the other end is gone
            return
        except Exception as problem:
            answer = "failed", {"message": f"{type(problem).__name__}: {problem}", "code": "internal",
                                "rule": "internal_error"}
        try:
            connection.send(answer)
        except OSError:
            return


def serve_at(address: tuple[str, int], key: bytes) -> None:
    """The same as a task of a Dask worker: calls the process that listens at `address`."""
    with Client(address, authkey=key) as connection:
        connection.send((build(), os.uname().nodename, os.getpid()))
        serve(connection)


def build() -> str:
    """The identity of a build: processes talk only to processes of the same one."""
    with open(_core.__file__, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class _Lost(Exception):
    """Another shard is gone, or has given up."""

    def __init__(self, shard: int) -> None:
        super().__init__(shard)
        self.shard = shard


class _Peers:
    """The ways to the other shards, on one machine: each two of them exchange their words, those with the
    lower numbers first, so that no two wait for each other."""

    def __init__(self, connection: Connection, number: int, count: int) -> None:
        self.number = number
        self.connections = {peer: Connection(recv_handle(connection)) for peer in range(count) if peer != number}

    def meet(self, to_all: Any, each: Any) -> list[tuple[Any, Any]]:
        received = {self.number: (to_all, each[self.number])}
        for peer, connection in self.connections.items():
            try:
                if self.number < peer:
                    connection.send((to_all, each[peer]))
                received[peer] = connection.recv()
                if self.number > peer:
                    connection.send((to_all, each[peer]))
            except (EOFError, OSError):
                raise _Lost(peer) from None
        return [received[shard] for shard in sorted(received)]

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


def _run(job, connection):
    """Results of this process's ranks."""
    if job["far"]:
        def meet(to_all, each):
            connection.send(("meet", to_all, each))
            return connection.recv()

        return _results(job, connection, meet)
    peers = _Peers(connection, job["shard"], 1 + max(job["owner"]))
    try:
        return _results(job, connection, peers.meet)
    finally:
        peers.close()


def _results(job, connection, meet):
    programs = [_core.Program.from_bytes(*program) for program in job["programs"]]
    for program in programs:
        program.set_rules(*job["rules"])
    world = _core.World([programs[i] for i in job["program_of"]], job["ring"], job["any_world"])
    for ranks, tensor, data in job["data"]:
        if len(ranks) == 1:
            world.load(ranks[0], tensor, data)
        else:
            world.load_all(ranks, tensor, data)
    world.same_inputs(job["same_inputs"])

    def printer(rank):
        return lambda line: connection.send(("print", rank, line))

    numbers = range(len(job["program_of"]))
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="nkisim-shard-") as folder:
        files, written = job["files"], {}
        if job["far"]:  # this machine's files are not the caller's
            files, written = _in_folder(folder, files)
        out = world.run(_config(job, folder), job["overrides"], files,
                        [warning_collector(job["undefined"], f"rank {r}: ", found) for r in numbers],
                        [printer(r) for r in numbers], job["choices"],
                        (job["shard"], job["owner"], meet))
        contents = {}
        for name, here in written.items():
            if os.path.exists(here):
                with open(here, "rb") as file:
                    contents[name] = file.read()
    out["outputs"] = _outputs(job, world, out["values_of"])
    out["found"], out["contents"] = found, contents
    return out


def _config(job, folder):
    if job["config_text"] is None:
        return job["config"]
    path = os.path.join(folder, os.path.basename(job["config"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write(job["config_text"])
    return path


def _in_folder(folder, files):
    """Names of reports in a folder of this machine, and {the caller's name: the one here}."""
    here, names = [], {}
    for rank, own in enumerate(files):
        here.append({key: os.path.join(folder, f"{rank}-{os.path.basename(path)}")
                     for key, path in own.items()})
        names.update({own[key]: here[-1][key] for key in own})
    return here, names


def _outputs(job, world, values_of):
    """{(rank, tensor): bytes} of the values that this process has, each once."""
    found = {}
    for rank in sorted(set(values_of)):
        if job["owner"][rank] != job["shard"]:
            continue
        for tensor, size in job["outputs"][job["program_of"][rank]]:
            data = bytearray(size)
            world.read(rank, tensor, data)
            found[rank, tensor] = data
    return found


def main() -> None:
    """A process of this machine, whose only argument is the descriptor of its connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends this process
    serve(Connection(int(sys.argv[1])))
