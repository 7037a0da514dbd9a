"""What the programs share: a trace, and buffers used in turn."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "traces"))
from builder import Trace  # noqa: E402

P, N = 128, 512  # rows of the tensor engine, columns of one PSUM bank in FP32

# The compiler's part of every program, chosen once (docs/accuracy.md, "The compiler's part"):
# loads and stores are triggered by different engines, so that a store waiting for its result does
# not hold up the loads behind it. trn1 has no hardware descriptor generation.
LOAD = {"trn1": None, "trn2": "sync", "trn3": "sync"}
STORE = {"trn1": None, "trn2": "scalar", "trn3": "scalar"}


class Program(Trace):
    def __init__(self, name, target, **header):
        super().__init__(name, "", target, locations=False, **header)
        self.target = target
        self._count = 0

    def load(self, dst, src, **more):
        self.dma_copy(dst=dst, src=src, **{"engine": LOAD[self.target], **more})

    def store(self, dst, src, **more):
        self.dma_copy(dst=dst, src=src, **{"engine": STORE[self.target], **more})

    def ring(self, name, count, shape, dtype="float32", space="sbuf"):
        """`count` buffers that take turns: ring() gives the next one."""
        make = self.sbuf if space == "sbuf" else self.psum
        tiles = [make(f"{name}{i}", shape, dtype) for i in range(count)]
        state = {"next": -1}

        def following():
            state["next"] = (state["next"] + 1) % count
            return tiles[state["next"]]
        return following

    def filled(self, name, shape, dtype="float32"):
        """An SBUF tile that holds something: single instructions need written operands."""
        tile = self.sbuf(name, shape, dtype)
        self.memset(dst=tile, value=1.0)
        return tile
