"""Fills the profile tables of the run as a whole: summary, machine, warnings, the schema itself."""

import numpy as np

from ..session import CAUSES, FS_PER_NS
from .common import SCHEMA, VERSION

TARGET_DMA, SMALL_ELEMENT, HIGH_DMA_WAIT = 32768, 512, 0.15
DMA_CAUSES = ("wait_dma", "hbm", "dma_latency", "dma_engines")


def _dma_share(s):
    """The share of a core's critical path that waits for DMA queues or HBM: the largest of them."""
    path = s.path
    waits = np.isin(path.cause, [CAUSES.index(c) for c in DMA_CAUSES])
    times = (path.to - getattr(path, "from")) * waits
    return max(float(times[path.core == c].sum()) for c in range(s.cores)) / max(1, s.end_fs)


def warnings(s):
    """The profiler's rules of thumb, on all cores together."""
    m, rows = s.totals(), []
    if s.facts.get("partial"):
        rows.append(("partial", "the run was interrupted: these tables end early"))
    if m["transpose_flops"] > 0.1 * max(1, m["hardware_flops"]):
        rows.append(("transpose", "over 10 % of the PE array's work is transposes"))
    if 0 < m["dma_transfer_average_bytes"] < TARGET_DMA:
        rows.append(("dma", f"the average DMA moves {m['dma_transfer_average_bytes']:.0f} bytes; "
                            "32 KiB or more use the bandwidth"))
    small = int((s.transfers.descriptor_bytes < SMALL_ELEMENT).sum())
    if small:
        rows.append(("dma", f"{small} of {len(s.transfers)} DMAs have elements under "
                            f"{SMALL_ELEMENT} bytes"))
    waits = _dma_share(s)
    if waits > HIGH_DMA_WAIT:
        rows.append(("dma", f"{100 * waits:.0f} % of the critical path waits for DMA"))
    return {"message": [r[1] for r in rows], "category": [r[0] for r in rows]}


def summary(s):
    rows = [s.summary(core) for core in range(s.cores)]
    known = [c[0] for c in SCHEMA["Summary"]]
    return {name: [row[name] for row in rows] for name in known}


def metadata(s):
    m = s.machine
    end = s.end_fs // FS_PER_NS
    clocks = {e: m["clocks_ghz"][e] for e in ("tensor", "vector", "scalar", "gpsimd")}
    row = {"profile_schema_version": VERSION, "ntff_version": 0, "num_physical_cores": s.cores,
           "vnc_enabled": s.cores > 1, "first_hw_timestamp": 0, "last_hw_timestamp": end,
           "first_ts": "0", "last_ts": str(end), "dma_ddr_bandwidth": m["dma_bytes_per_ns"] * 1e9,
           "num_dma_engines_per_neuroncore": m["dma_engines"],
           "hbm_ddr_bandwidth": m["hbm_bytes_per_ns"] * 1e9,
           "tensor_engine_num_rows": m["pe_rows"], "tensor_engine_num_cols": m["pe_columns"],
           "tensor_engine_clock_freq": clocks["tensor"],
           "vector_engine_clock_freq": clocks["vector"], "vector_engine_num_channels": 128,
           "scalar_engine_clock_freq": clocks["scalar"], "scalar_engine_num_channels": 128,
           "gpsimd_engine_clock_freq": clocks["gpsimd"], "gpsimd_engine_num_channels": 128,
           "neuroncore_clock_freq": m["base_clock_ghz"], "ticks_per_nanosec": 1,
           "instance_type": m["instance_type"], "neuroncore_idx": 0, "neuron_device_idx": 0,
           "profile_name": s.facts.get("trace", ""), "is_simulation": True}
    return {k: [v] for k, v in row.items()}


def execution_info(s):
    """One execution; there is no NEFF."""
    return {"execution_index": [0], "execution_start_ts": [0],
            "execution_end_ts": [s.end_fs // FS_PER_NS], "num_subgraphs": [s.cores],
            "row_count": [s.totals()["total_row_count"]]}


def schema_fields(_s):
    rows = [(table, name, kind, required, unit) for table, columns in SCHEMA.items()
            for name, kind, unit, required in columns]
    n = len(rows)
    return {"table_name": [r[0] for r in rows], "table_description": [""] * n,
            "field_name": [r[1] for r in rows], "field_description": [""] * n,
            "field_type": [r[2] for r in rows], "field_required": [r[3] for r in rows],
            "field_unit": [r[4] for r in rows]}
