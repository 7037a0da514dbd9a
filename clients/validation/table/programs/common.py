"""Helpers for the rebuilt measured kernels: a program, and buffers used alternately."""
import sys

from source_tree import ROOT

sys.path.insert(0, str(ROOT / "traces"))
from builder import BYTES, Tensor, Trace  # noqa: E402

P, N = 128, 512  # rows of the tensor engine, columns of one PSUM bank in FP32

# The compiler's part of every program, chosen once (docs/evidence.md, "The compiler's part"):
# loads and stores are triggered by different engines, so that a store waiting for its result does
# not hold up the loads behind it. trn1 has no hardware descriptor generation: rings that the Mamba
# profiles call qSyncIO0 (loads) and qGpSimdIO0 (stores).
LOAD = {"trn1": {"engine": "sync"}, "trn2": {"engine": "sync"}}
STORE = {"trn1": {"engine": "gpsimd", "dge_mode": "none"}, "trn2": {"engine": "scalar"}}


class Program(Trace):
    def __init__(self, name, target, **header):
        super().__init__(name, "", target, locations=False, **header)
        self.target = target
        self.tiles, self.constants = [], set()

    def load(self, dst, src, **more):
        self.dma_copy(dst=dst, src=src, **{**LOAD[self.target], **more})

    def store(self, dst, src, **more):
        self.dma_copy(dst=dst, src=src, **{**STORE[self.target], **more})

    def ring(self, name, count, shape, dtype="float32", space="sbuf"):
        """`count` buffers that alternate: ring() gives the next one."""
        make = self.sbuf if space == "sbuf" else self.psum
        tiles = [make(f"{name}{i}", shape, dtype) for i in range(count)]
        state = {"next": -1}

        def following():
            state["next"] = (state["next"] + 1) % count
            return tiles[state["next"]]
        return following

    def input(self, name, shape, dtype, **data):
        self.constants.add(name)  # never written: what is loaded from it can be loaded again
        return super().input(name, shape, dtype, **data)

    def tile(self, name, shape, dtype="float32"):
        """An SBUF tile whose address memory.fit() finds, for the time between its uses."""
        line = {"name": f"{name}{len(self.tiles)}", "space": "sbuf", "shape": list(shape),
                "dtype": dtype}
        self.tiles.append(line)
        return Tensor(line["name"], shape, dtype)

    @staticmethod
    def bytes_of(tensor):
        """Bytes per partition."""
        size = BYTES[tensor["dtype"]]
        for n in tensor["shape"][1:]:
            size *= n
        return size

    def fixed_bytes(self):
        """Bytes per partition below which tensors have addresses of their own."""
        return -(-self._next["sbuf"] // 32) * 32

    def filled(self, name, shape, dtype="float32"):
        """An SBUF tile that holds something: single instructions need written operands."""
        tile = self.sbuf(name, shape, dtype)
        self.memset(dst=tile, value=1.0)
        return tile
