"""Tests that a client without the key is dropped by processes that simulate ranks together, and
delays nothing.
"""

import contextlib
import socket
import struct
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client

import pytest

from nkisim.run.shards import Calls

KEY = b"k" * 32


def garbage(address):
    with socket.create_connection(address) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.2)


def too_long(address):
    with socket.create_connection(address) as s:
        s.sendall(struct.pack("!i", -1) + struct.pack("!Q", 1 << 60))
        time.sleep(0.2)


def wrong_key(address):
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(address, authkey=b"other")


def goes_at_once(address):
    socket.create_connection(address).close()


def silent(address):
    socket.create_connection(address).detach()  # stays open


@pytest.mark.parametrize("stranger", [garbage, too_long, wrong_key, goes_at_once, silent])
def test_a_stranger_is_dropped(stranger, capfd):
    calls = Calls("127.0.0.1", KEY)
    try:
        for _ in range(3):
            stranger(calls.address)
        with Client(calls.address, authkey=KEY) as worker:
            worker.send(("build", "host", 1))
            connection, said = calls.queue.get(timeout=10)
            assert said == ("build", "host", 1)
            connection.send("job")
            assert worker.recv() == "job"
        assert calls.queue.empty()
    finally:
        calls.close()
    for _ in range(100):
        if not calls._greeted:
            break
        time.sleep(0.05)
    assert not calls._greeted
    with contextlib.suppress(OSError):
        connection.close()
    assert "Traceback" not in capfd.readouterr().err
    with pytest.raises(OSError):
        for _ in range(50):
            socket.create_connection(calls.address, timeout=1).close()
            time.sleep(0.05)
    assert threading.active_count() < 50
