"""nki.isa.constants: the enumerations."""

from nkisim.values.enums import (dge_mode, dma_engine, engine, matmul_perf_mode, nc_version,
                                 oob_mode, reduce_cmd)

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode",
           "reduce_cmd"]
