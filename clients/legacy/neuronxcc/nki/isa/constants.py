"""nki.isa.constants: the enumerations of the instructions, such as engines."""

from nkisim.values.enums import (dge_mode, dma_engine, engine, matmul_perf_mode, nc_version,
                                 oob_mode, reduce_cmd)

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode",
           "reduce_cmd"]
