"""Fills the profile tables of collective operations, and of the CC-cores that drive them."""

import numpy as np

from ..session import ENGINES
from .common import NS_PER_S, ns

#: Bus bandwidth over algorithm bandwidth, for n ranks (nccom-test).
BUS = {"AllReduce": lambda n: 2 * (n - 1) / n, "AllGather": lambda n: (n - 1) / n,
       "ReduceScatter": lambda n: (n - 1) / n, "AllToAll": lambda n: (n - 1) / n}


def _once(s):
    """Rows of `collectives`, one per operation: each core of a rank has triggered it."""
    _, rows = np.unique(s.collectives.id, return_index=True)
    return np.sort(rows)


def cc_op(s):
    c, rows = s.collectives, _once(s)
    start, end, trigger = (ns(t[rows]) for t in (c.start, c.end, c.trigger_end))
    duration = end - start
    operations, groups = s.text(c.operation[rows]), s.text(c.group[rows])
    known = {text: i for i, text in enumerate(dict.fromkeys(groups))}
    moved = np.maximum(c.input[rows], c.output[rows])
    rate = np.divide(moved * NS_PER_S, duration, out=np.zeros(len(rows)), where=duration > 0)
    bus = [BUS.get(o, lambda n: 1.0)(n) for o, n in zip(operations, c.ranks[rows].tolist())]
    return {"start_ts": start, "end_ts": end, "duration_ns": duration, "operation": operations,
            "algorithm": s.text(c.algorithm[rows]), "num_elements": c.elements[rows],
            "dtype": s.text(c.dtype[rows]), "op_id": c.id[rows], "stream_id": c.stream[rows],
            "stream_index": c.stream[rows], "trigger_engine": [ENGINES[e] for e in c.engine[rows]],
            "input_size": c.input[rows], "output_size": c.output[rows], "algorithm_bandwidth": rate,
            "bus_bandwidth": rate * np.array(bus, dtype=float), "trigger_start_ts": trigger,
            "cc_trigger_start_delay": start - trigger,
            "replica_group_id": [known[g] for g in groups], "replica_group": groups}


def cc_instruction(s):
    i, c = s.cc_instructions, s.collectives
    rows = np.flatnonzero(np.isin(i.collective, _once(s)))
    start, end, of = ns(i.start[rows]), ns(i.end[rows]), i.collective[rows]
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start, "core_idx": i.cc_core[rows],
            "description": s.text(i.description[rows]),
            "trigger_engine": [ENGINES[e] for e in c.engine[of]],
            "trigger_start_ts": ns(c.trigger_end[of])}


def cc_stream(s):
    """Stream 0 has what the others, one core each, leave."""
    streams = sorted(set(s.collectives.stream.tolist()))
    cores = list(s.machine.get("cc_cores", []))
    own = {k: [cores[-k]] for k in streams if 0 < k <= len(cores)}
    taken = {c for list_ in own.values() for c in list_}
    own[0] = [c for c in cores if c not in taken]
    return {"stream_id": streams, "stream_index": streams,
            "cc_core_ids": [str(own.get(k, [])) for k in streams]}
