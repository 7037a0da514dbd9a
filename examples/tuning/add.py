"""A kernel with parameters for `nkisim tune`, z = x + y: tile width, adding engine, DMA queues."""

import nki
import nki.isa as nisa
import nki.language as nl


def make(width=64, adds="gpsimd", loads="sync"):
    """width: elements of a tile per partition. adds: gpsimd, vector or both alternately. loads: engines
    whose queues load (sync, scalar, both: one operand each)."""

    @nki.jit
    def add(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        queues = {"sync": ("sync", "sync"), "scalar": ("scalar", "scalar"),
                  "both": ("sync", "scalar")}[loads]
        for i, start in enumerate(range(0, x.shape[1], width)):
            part = nl.ds(start, width)
            tiles = []
            for source, queue in zip((x, y), queues):
                tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=source[:, part], engine=getattr(nisa.engine, queue),
                              dge_mode=nisa.dge_mode.hwdge)
                tiles.append(tile)
            engine = "gpsimd" if adds == "both" and i % 4 == 3 else adds.replace("both", "vector")
            nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[1], op=nl.add,
                               engine=getattr(nisa.engine, engine))
            nisa.dma_copy(dst=out[:, part], src=tiles[0])
        return out

    return add
