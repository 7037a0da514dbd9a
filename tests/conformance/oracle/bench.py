"""Makes calls of nki.isa that AWS's documents forbid, for the table in illegal.py."""

import numpy as np

from .case import Case, Ref, as_stored
from .formats import numpy_type

#: (function, first generation, last generation, what the page says, builder)
RULES = []


class Bench:
    """Makes the tiles and the call of one illegal case."""

    def __init__(self, function, generation):
        self.case = Case(function, generation)
        self.count = 0

    def tile(self, dtype="float32", shape=(32, 16), buffer="sbuf"):
        """A tile of ones."""
        self.count += 1
        data = np.ones(shape).astype(numpy_type(dtype))
        return self.case.load(f"t{self.count}", data, dtype, buffer)

    def call(self, **keywords):
        """The call."""
        self.case.call(self.case.function, **keywords)

    def done(self):
        """The case, which reads one element back so that nothing is dropped."""
        first = next(iter(self.case.tiles.values()))
        self.case.result(Ref(first.name), as_stored(first.data))
        return self.case


def refuse(function, says, first=2, last=4, **made):
    """One illegal call whose operands are made by functions of the bench, or plain values."""

    def builder(b):
        b.call(**{k: v(b) if callable(v) else v for k, v in made.items()})

    RULES.append((function, first, last, says, builder))


def t(dtype="float32", shape=(32, 16), buffer="sbuf"):
    """A tile made when the case is."""
    return lambda b: b.tile(dtype, shape, buffer)


def cases():
    """(function, generation, what the page says, case) of every rule on its first and its last generation."""
    for function, first, last, says, builder in RULES:
        for generation in sorted({first, last}):
            bench = Bench(function, generation)
            builder(bench)
            yield function, generation, says, bench.done()
