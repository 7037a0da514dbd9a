"""Rebuilds measured kernels that are bound by VectorE or by the fixed costs of DMA."""
from .common import N, P, Program
from .memory import fit


def vector_add(target="trn2", n=25600, rows=128, columns=1, ahead=8, engine="gpsimd"):
    """c = a + b over n elements, a tile of rows x columns per step; DMA by software descriptors.

    The loads run `ahead` steps before their addition: the compiler's back end does so, or a step
    would take three DMA latencies (6 us; the measured 1.5 us are three descriptor generations).
    """
    steps = n // rows // columns
    t = Program("vector_add", target)
    a, b = (t.input(x, (steps * rows, columns), "float32") for x in "ab")
    c = t.output("c", (steps * rows, columns), "float32")
    tiles = [[t.sbuf(f"{x}{i}", (rows, columns), "float32") for x in "abc"]
             for i in range(min(ahead + 1, steps))]

    def part(x, i):
        return x[i * rows:(i + 1) * rows, :]

    for i in range(steps + ahead):
        if i < steps:
            for x, tile in ((a, tiles[i % len(tiles)][0]), (b, tiles[i % len(tiles)][1])):
                t.dma_copy(dst=tile, src=part(x, i), engine=engine)
        if i >= ahead and i - ahead < steps:
            left, right, result = tiles[(i - ahead) % len(tiles)]
            t.tensor_tensor(dst=result, data1=left, data2=right, op="add", engine="vector")
            t.dma_copy(dst=part(c, i - ahead), src=result, engine=engine)
    return t


def mamba(target="trn1", version=2, channels=4096, seq=512, states=16, capacity=None):
    """The selective scan of the fused Mamba tutorial, loop orders v1, v2 and v3.

    v1 has the loop over states outside the one over channels, as the tutorial prints it, and loads delta
    and u for every two states: its profile shows about seven reloads of each. v2 loads them once per 128
    channels, v3 also cuts the sequence into pieces of 512. The compiler's part, as the zoomed profile of v2
    with 8192 steps shows it: the product of delta and u leaves the loop over states (four VectorE
    instructions per state remain); the tensor engine broadcasts rows of B and C into PSUM; ScalarE copies
    them to SBUF if they do not fit a bank. Where they do, two states are interleaved, so that VectorE does
    not wait for its own results: the durations in the profile of v2 with 512 steps overlap.
    """
    built = _Mamba(target, version, channels, seq, states)
    return fit(built.write(), capacity)


class _Mamba(Program):
    def __init__(self, target, version, channels, seq, states):
        super().__init__(f"mamba v{version}", target)
        f = "float32"
        self.version, self.seq, self.states, self.channels = version, seq, states, channels
        self.delta, self.u = (self.input(x, (channels, seq), f) for x in ("delta", "u"))
        self.a = self.input("A", (channels, states), f)
        self.b, self.c = (self.input(x, (states, seq), f) for x in "BC")
        self.out = self.output("out", (channels, seq), f)
        self.piece = 512 if version == 3 else seq
        self.ones = self.sbuf("ones", (1, P), f)
        self.memset(dst=self.ones, value=1.0, engine="gpsimd")
        self.bank = self.ring("bank", 8, (P, N), space="psum")

    def loaded(self, name, source):
        """A new tile with a slice of an HBM tensor."""
        rows, columns = (x.stop - x.start for x in source[1])
        tile = self.tile(name, (rows, columns))
        self.load(tile, source[0][source[1]])
        return tile

    def broadcast(self, name, source, state, start):
        row = self.loaded(f"{name}row", (source, (slice(state, state + 1),
                                                  slice(start, start + self.piece))))
        if self.piece <= N:
            bank = self.bank()
            self.nc_matmul(dst=bank[:, 0:self.piece], stationary=self.ones, moving=row,
                           accumulate=False)
            return bank
        tile = self.tile(name, (P, self.piece))
        for low in range(0, self.piece, N):
            bank, cut = self.bank(), slice(low, min(low + N, self.piece))
            width = cut.stop - cut.start
            self.nc_matmul(dst=bank[:, 0:width], stationary=self.ones, moving=row[:, cut],
                           accumulate=False)
            self.activation(dst=tile[:, cut], op="copy", data=bank[:, 0:width])
        return tile

    def product(self, delta, u):
        tile = self.tile("dU", (P, self.seq))
        for start in range(0, self.seq, self.piece):
            cut = slice(start, start + self.piece)
            self.two(tile[:, cut], delta[:, cut], u[:, cut], "multiply")
        return tile

    def steps(self, rows, inputs, total, state):
        """One generator per state: yields between instructions of VectorE."""
        delta, product = inputs[0], inputs[-1]
        if self.version == 1:
            product = self.product(*inputs)
        scale = self.loaded("A", (self.a, (rows, slice(state, state + 1))))
        before = None
        for start in range(0, self.seq, self.piece):
            cut = slice(start, start + self.piece)
            tile = {x: self.tile(x, (P, self.piece)) for x in ("dA", "dB", "scan", "sC")}
            self.activation(dst=tile["dA"], op="exp", data=delta[:, cut], scale=scale)
            b = self.broadcast("B", self.b, state, start)
            self.two(tile["dB"], product[:, cut], b, "multiply")
            yield
            self.tensor_tensor_scan(dst=tile["scan"], data0=tile["dA"], data1=tile["dB"],
                                    initial=before or 0.0, op0="multiply", op1="add")
            yield
            if start + self.piece < self.seq:
                before = self.tile("init", (P, 1))
                self.tensor_copy(dst=before, src=tile["scan"][:, self.piece - 1:self.piece],
                                 engine="vector")
            c = self.broadcast("C", self.c, state, start)
            self.two(tile["sC"], tile["scan"], c, "multiply")
            yield
            self.two(total[:, cut], total[:, cut], tile["sC"], "add")

    def two(self, dst, left, right, op):
        self.tensor_tensor(dst=dst, data1=left, data2=right, op=op, engine="vector")

    def inputs(self, rows):
        """delta and u."""
        whole = slice(0, self.seq)
        return [self.loaded(name, (source, (rows, whole)))
                for name, source in (("delta", self.delta), ("u", self.u))]

    def together(self):
        """States that are interleaved: two, where a row of B or C fits a PSUM bank."""
        return 2 if self.piece <= N else 1

    def cleared(self):
        total = self.tile("total", (P, self.seq))
        self.memset(dst=total, value=0.0, engine="vector")
        return total

    def some_states(self, rows, inputs, total, first):
        group = [self.steps(rows, inputs, total, first + s) for s in range(self.together())]
        while group:
            group = [s for s in group if next(s, "end") != "end"]

    def write(self):
        tiles = [slice(first, first + P) for first in range(0, self.channels, P)]
        states = range(0, self.states, self.together())
        if self.version == 1:
            totals = [self.cleared() for _ in tiles]
            for first in states:
                for rows, total in zip(tiles, totals):
                    self.some_states(rows, self.inputs(rows), total, first)
            for rows, total in zip(tiles, totals):
                self.store(self.out[rows, :], total)
            return self
        for rows in tiles:
            total, (delta, u) = self.cleared(), self.inputs(rows)
            product = self.product(delta, u)
            for first in states:
                self.some_states(rows, (delta, product), total, first)
            self.store(self.out[rows, :], total)
        return self


def average_pool(target="trn2", n=1, c=64, h=56, w=56, out=7, dtype="float32", ahead=8):
    """Adaptive average pooling of nki-samples: a load, a sum and a division per window.

    Measured times per window follow 0.57 us + 0.88 ns per row of the window and channel, whatever the
    number of DMA engines: software descriptors, as the first API's other kernels have them.
    The source has one cleared buffer per 128 channels for the windows; it is renamed here for every
    window, as the compiler must have done: 1.3 us per window leave no time for a load's way and back.
    """
    channels, parts = n * c, min(n * c, P)
    t = Program("adaptive_avg_pool2d", target)
    x = t.input("x", (channels, h, w), dtype)
    y = t.output("y", (channels, out, out), dtype)

    def window(k, size):
        return slice(k * size // out, ((k + 1) * size + out - 1) // out)

    waiting = []  # stores, behind the loads of the next `ahead` groups of channels as in vector_add()

    def store():
        rows, result = waiting.pop(0)
        t.dma_copy(dst=y[rows], src=result, engine="gpsimd")

    for first in range(0, channels, parts):
        rows, result = slice(first, first + parts), t.tile("out", (parts, out, out), dtype)
        t.memset(dst=result, value=0.0)
        for i in range(out):
            for j in range(out):
                _pool(t, x[rows, window(i, h), window(j, w)], (window(i, h), window(j, w)),
                      result[:, i, j:j + 1], parts, dtype)
        waiting.append((rows, result))
        if len(waiting) > ahead:
            store()
    while waiting:
        store()
    return fit(t)


def _pool(t, source, spans, result, parts, dtype, most=128):
    """The average of one window, in pieces of at most `most` x `most` (a sequential_range: one buffer,
    one piece after the other)."""
    heights, widths = ([slice(a, min(a + most, s.stop)) for a in range(s.start, s.stop, most)]
                       for s in spans)
    total = t.tile("acc", (parts, 1))
    t.memset(dst=total, value=0.0)
    name, rows = source.partition("[")[0], source.partition("[")[2].partition(",")[0]
    tile = t.tile("window", (parts, *(s[0].stop - s[0].start for s in (heights, widths))), dtype)
    if len(heights) * len(widths) > 1:  # a loop: the source's clearing of the buffer stays
        t.memset(dst=tile, value=0.0, engine="vector")
    for a in heights:
        for b in widths:
            part = t.tile("sum", (parts, 1))
            t.dma_copy(dst=tile, src=f"{name}[{rows},{a.start}:{a.stop},{b.start}:{b.stop}]",
                       engine="gpsimd")
            t.tensor_reduce(dst=part, data=tile, op="add", axis=[1, 2])
            t.tensor_tensor(dst=total, data1=total, data2=part, op="add", engine="vector")
    count = (spans[0].stop - spans[0].start) * (spans[1].stop - spans[1].start)
    t.tensor_scalar(dst=result, data=total, op0="multiply", operand0=1 / count, engine="vector")
