"""What all these tests need."""
import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def signals_arrive():
    """A shell's background jobs ignore SIGINT, and so would whatever they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
