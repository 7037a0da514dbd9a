"""Spreads the ranks of a run over processes of this machine or Dask workers. Each simulates some of
them (a shard).

Each process runs its shard (docs/collectives.md); this one sends them their programs and data and takes the
results. Processes of this machine say directly to each other where they are, workers by way of this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from multiprocessing.reduction import send_handle
from typing import Any

from nkisim_work.host import share_of_machine

from ..values.errors import Error
from .shard import build, serve_at

#: Seconds until every Dask worker has called.
CALL_SECONDS = 120
_MAIN = "from nkisim.run.shard import main; main()"


def owners(ranks: int, processes: int, share: int) -> list[int]:
    """The process of each rank: equally many ranks in sequence, those of an HBM stack (`share`) together."""
    stacks = -(-ranks // share)
    shards = min(processes, stacks)
    return [rank // share * shards // stacks for rank in range(ranks)]


class Shard:
    """One process: its connection, and what it is called in messages."""

    def __init__(self, connection: Connection, name: str, ended: Callable[[], str] | None = None,
                 end: Callable[[], None] | None = None) -> None:
        self.connection, self.name = connection, name
        self.ended = ended or (lambda: "")  # why it has ended, if that is known
        self.end = end or connection.close


class LocalShards:
    """Processes of this machine. Those that have done their work wait for the next run."""

    far = False
    _idle: list[Shard] = []
    _process = os.getpid()
    _of = 0  # how many share the machine's memory

    def __init__(self, count: int) -> None:
        if LocalShards._process != os.getpid():  # a fork has no processes of its own
            LocalShards._idle, LocalShards._process = [], os.getpid()
        if count != LocalShards._of:
            _end_idle()
            LocalShards._of = count
        self.shards = [LocalShards._idle.pop() if LocalShards._idle else _start(count) for _ in range(count)]

    def connect(self) -> None:
        """Gives each two of them a way to each other, which they take after their jobs."""
        for number, one in enumerate(self.shards):
            for other in self.shards[number + 1:]:
                ends = Pipe()
                for shard, end in zip((one, other), ends):
                    try:
                        send_handle(shard.connection, end.fileno(), None)
                    except OSError:
                        raise _gone(shard) from None
                for end in ends:
                    end.close()

    def close(self, whole: bool) -> None:
        """Ends the processes, or keeps them if the run was `whole`."""
        if whole:
            LocalShards._idle.extend(self.shards)
            return
        for shard in self.shards:
            shard.end()


def _start(of):
    here, there = Pipe()
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p), **share_of_machine(of))
    process = subprocess.Popen([sys.executable, "-c", _MAIN, str(there.fileno())],
                               pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, env=env)
    there.close()

    def ended():
        code = process.wait(10)
        return f" by signal {-code}" if code < 0 else f" with exit code {code}"

    def end():
        here.close()
        process.kill()
        process.wait()

    return Shard(here, f"process {process.pid}", ended, end)


@atexit.register
def _end_idle():
    if LocalShards._process == os.getpid():
        for shard in LocalShards._idle:
            shard.end()
        LocalShards._idle.clear()


class DaskShards:
    """A task on each of `count` workers of a Dask client's scheduler; they call this process."""

    far = True

    def __init__(self, client: Any, count: int) -> None:
        workers = sorted(client.nthreads())
        if len(workers) < count:
            raise Error(f"the ranks are to run in {count} processes; the Dask scheduler at "
                        f"{client.scheduler.address} has {len(workers)} workers",
                        rule="dask_workers", code="usage")
        key = secrets.token_bytes(32)
        self._calls = Calls(_own_address(client), key)
        self._client = client
        self.shards: list[Shard] = []
        self._tasks = [client.submit(serve_at, self._calls.address, key, workers=[worker],
                                     allow_other_workers=False, pure=False, retries=0)
                       for worker in workers[:count]]
        try:
            self._take(count, self._calls.queue)
        except BaseException:
            self.close(False)
            raise

    def _take(self, count, calls):
        seen = set()
        for _ in range(CALL_SECONDS * 5):
            if len(self.shards) == count:
                return
            for task in self._tasks:
                if task.status == "error":
                    raise Error(f"a Dask worker cannot run ranks: {task.exception()!r} (workers need "
                                "this build of nkisim, and a way to this machine)",
                                rule="dask_workers", code="usage")
            try:
                connection, (its_build, host, pid) = calls.get(timeout=0.2)
            except queue.Empty:
                continue
            if its_build != build():
                raise Error(f"the Dask worker in process {pid} of {host} has another build of nkisim; this "
                            "one is required", rule="dask_workers", code="usage")
            if (host, pid) in seen:
                raise Error(f"two Dask workers are in process {pid} of {host}; ranks need workers in "
                            "processes of their own (LocalCluster(processes=True))",
                            rule="dask_workers", code="usage")
            seen.add((host, pid))
            self.shards.append(Shard(connection, f"the Dask worker in process {pid} of {host}"))
        raise Error(f"{len(self.shards)} of {count} Dask workers have called "
                    f"{self._calls.address} within {CALL_SECONDS} s; all are required at once",
                    rule="dask_workers", code="usage")

    def connect(self) -> None:
        """They may not reach each other."""

    def close(self, whole: bool) -> None:
        """Ends the tasks."""
        for shard in self.shards:
            shard.end()
        self._calls.close()
        if not whole:
            self._client.cancel(self._tasks)


def _own_address(client):
    """This machine's address on the way to the scheduler."""
    from distributed.comm import get_address_host

    host = get_address_host(client.scheduler.address)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((host, 1))
        return s.getsockname()[0]


class Calls:
    """A port that workers with a key call: `queue` has (connection, what it says first) of each. Whoever
    else connects, says nothing or something else is dropped, and keeps no process waiting."""

    def __init__(self, host: str, key: bytes) -> None:
        self._server = socket.create_server((host, 0), backlog=128)
        self.address = self._server.getsockname()[:2]
        self.queue: queue.Queue[tuple[Connection, Any]] = queue.Queue()
        self._key = key
        self._greeted: list[Connection] = []
        self._done = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with self._server:
            while not self._done.is_set():
                if not select.select([self._server], [], [], 0.2)[0]:
                    continue
                try:
                    connection = Connection(self._server.accept()[0].detach())
                except OSError:  # it is gone already
                    continue
                self._greeted.append(connection)
                threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection):
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            self.queue.put((connection, connection.recv()))
        except Exception:  # of a stranger's making, whatever it is
            connection.close()
        self._greeted.remove(connection)

    def close(self) -> None:
        """Takes no more calls; who has not proved to have the key is dropped."""
        self._done.set()
        for connection in list(self._greeted):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as its:
                its.shutdown(socket.SHUT_RDWR)  # its thread waits for what it says


class Run:
    """One run of a world in several processes."""

    def __init__(self, processes: int, client: Any, share: int) -> None:
        self._processes, self._client, self._share = processes, client, share

    def results(self, job: dict[str, Any], program_of: Sequence[int],
                data: Iterable[tuple[Sequence[int], int, bytes]],
                printer: Callable[[int, str], object]) -> tuple[list[int], list[dict[str, Any]]]:
        """The shards' results. `job`: what all of them need; `data`: (ranks, tensor, bytes) of the
        inputs; `printer(rank, line)` is called with what ranks print."""
        owner = owners(len(program_of), self._processes, self._share)
        count = 1 + max(owner)
        where: DaskShards | LocalShards = (
            DaskShards(self._client, count) if self._client is not None else LocalShards(count))
        whole, data = False, list(data)
        try:
            for number, shard in enumerate(where.shards):
                own = [([r for r in ranks if owner[r] == number], tensor, values)
                       for ranks, tensor, values in data]
                self._send(shard, dict(job, program_of=program_of, owner=owner, shard=number,
                                       far=where.far, data=[d for d in own if d[0]]))
            where.connect()
            answers = self._pass_on(where.shards, printer)
            whole = all(kind != "lost" for kind, _ in answers)
        finally:
            where.close(whole)
        for kind, answer in answers:
            if kind == "failed":
                raise Error(**answer)
        if not whole:
            raise _ended_apart()
        return owner, [answer for _, answer in answers]

    def _send(self, shard, message):
        try:
            shard.connection.send(message)
        except OSError:
            raise _gone(shard) from None

    def _pass_on(self, shards, printer):
        """The final answer of each shard."""
        answers: dict[int, tuple[str, Any]] = {}
        waiting: dict[int, tuple[Any, Any]] = {}
        while len(answers) < len(shards):
            left = {shard.connection: number for number, shard in enumerate(shards)
                    if number not in answers and number not in waiting}
            ready: list[Any] = wait(list(left))  # of those, which are connections
            for connection in ready:
                number = left[connection]
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    raise _gone(shards[number]) from None
                if message[0] == "print":
                    printer(*message[1:])
                elif message[0] == "meet":
                    waiting[number] = message[1:]
                else:
                    answers[number] = message
            if len(waiting) == len(shards):
                for to, shard in enumerate(shards):
                    self._send(shard, [(waiting[n][0], waiting[n][1][to]) for n in range(len(shards))])
                waiting.clear()
            elif waiting and len(waiting) + len(answers) == len(shards):
                for kind, answer in answers.values():  # the others wait for one that has failed
                    if kind == "failed":
                        raise Error(**answer)
                raise _ended_apart()
        return [answers[number] for number in range(len(shards))]


def _ended_apart():
    return Error("internal error: some processes of the run have ended and others have not",
                 rule="internal_error", code="internal")


def _gone(shard):
    return Error(f"{shard.name} ended{shard.ended()} before its ranks did (killed, or out of memory?); the "
                 "run is given up", rule="process_lost", code="internal")


def write(name: str, content: bytes) -> None:
    """A report that a process on another machine has made."""
    with open(name, "wb") as file:
        file.write(content)


def config_text(config: str) -> str | None:
    """A config file's text for processes that may not see the file; None for a built-in config."""
    if not os.path.isfile(config):
        return None
    with open(config, encoding="utf-8") as file:
        return file.read()
