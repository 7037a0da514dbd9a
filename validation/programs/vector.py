"""Kernels bound by VectorE or by the fixed costs of DMA."""
from .common import P, Program


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


def mamba(target="trn1", version=2, channels=4096, seq=512, states=16):
    """The selective scan of the fused Mamba tutorial, loop orders v1, v2 and v3.

    v1 loads delta and u for every state, v2 once per 128 channels, v3 also cuts the sequence into
    pieces of 512. The compiler's part, as the mean VectorE duration of the published profiles shows
    it (1.07 us in v1, 0.81 us in v2): rows of B and C are broadcast in SBUF in v1 and where a row
    does not fit a PSUM bank, else by the tensor engine into PSUM, with the product by C also kept
    there. Two states are interleaved, so that VectorE does not wait for its own results.
    """
    return _Mamba(target, version, channels, seq, states).write()


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
        self.in_psum = version > 1 and self.piece <= 512
        few = seq > 4096 and version < 3
        self.whole = self.ring("whole", 1 if seq > 2048 else 2, (P, 3, seq), f)
        names = ("dA", "dU", "dB", "scan") + (() if self.in_psum else ("sC", "Bb", "Cb"))
        self.rings = {x: self.ring(x, 1 if few else 4, (P, self.piece), f) for x in names}
        self.scale, self.init = self.ring("scale", 4, (P, 1), f), self.ring("init", 4, (P, 1), f)
        if version == 1:
            self.again = self.ring("again", 4, (P, 2, seq), f)
        if self.in_psum:
            self.row = self.ring("row", 8, (1, self.piece), f)
            self.ones = self.sbuf("ones", (1, P), f)
            self.memset(dst=self.ones, value=1.0, engine="gpsimd")
            for x, banks in (("Bb", 3), ("Cb", 3), ("sC", 2)):
                self.rings[x] = self.ring(x, banks, (P, self.piece), space="psum")

    def broadcast(self, tile, source, state, start):
        if not self.in_psum:
            pattern = [[0, P], [1, self.piece]]
            self.load(tile, source.ap(pattern, offset=4 * (state * self.seq + start)))
            return
        row = self.row()
        self.load(row, source[state:state + 1, start:start + self.piece])
        self.nc_matmul(dst=tile, stationary=self.ones, moving=row, accumulate=False)

    def steps(self, rows, tiles, total, state):
        """One generator per state: yields between instructions of VectorE."""
        if self.version == 1:
            tiles = self.again()
            self.load(tiles[:, 0, :], self.delta[rows, :])
            self.load(tiles[:, 1, :], self.u[rows, :])
        scale, before = self.scale(), None
        self.load(scale, self.a[rows, state:state + 1])
        for start in range(0, self.seq, self.piece):
            cut = slice(start, start + self.piece)
            x = {name: following() for name, following in self.rings.items()}
            acc = total[:, 2, cut]
            self.activation(dst=x["dA"], op="exp", data=tiles[:, 0, cut], scale=scale)
            self.broadcast(x["Bb"], self.b, state, start)
            self.broadcast(x["Cb"], self.c, state, start)
            self.two(x["dU"], tiles[:, 0, cut], tiles[:, 1, cut], "multiply")
            yield
            self.two(x["dB"], x["dU"], x["Bb"], "multiply")
            yield
            self.tensor_tensor_scan(dst=x["scan"], data0=x["dA"], data1=x["dB"],
                                    initial=before or 0.0, op0="multiply", op1="add")
            yield
            if self.piece < self.seq:
                before = self.init()
                self.tensor_copy(dst=before, src=x["scan"][:, self.piece - 1:self.piece],
                                 engine="vector")
            self.two(x["sC"], x["scan"], x["Cb"], "multiply")
            yield
            self.two(acc, acc, x["sC"], "add")

    def two(self, dst, left, right, op):
        self.tensor_tensor(dst=dst, data1=left, data2=right, op=op, engine="vector")

    def write(self):
        for tile in range(self.channels // P):
            rows = slice(tile * P, (tile + 1) * P)
            tiles = self.whole()
            self.memset(dst=tiles[:, 2, :], value=0.0, engine="vector")
            if self.version > 1:
                self.load(tiles[:, 0, :], self.delta[rows, :])
                self.load(tiles[:, 1, :], self.u[rows, :])
            for state in range(0, self.states, 2):
                pair = [self.steps(rows, tiles, tiles, s) for s in (state, state + 1)]
                while pair:
                    pair = [s for s in pair if next(s, "end") != "end"]
            self.store(self.out[rows, :], tiles[:, 2, :])
        return self
