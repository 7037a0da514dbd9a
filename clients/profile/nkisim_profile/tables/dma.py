"""Fills the profile tables of the DMA queues: transfers, packets, throughput."""

import numpy as np

from ..session import FS_PER_NS, SPACES
from .common import RowCollector, NS_PER_S, PACKET_ID, ns, rate, steps, transfer_ids

DMA_KINDS = {1: "software_dynamic", 2: "hardware_dynamic", 3: "instruction"}


def _queue_types(modes):
    return [DMA_KINDS.get(int(m), "unknown") for m in modes]


def _tensor_names(s):
    """Per static instruction: the names of the tensors it reads and writes."""
    reads, writes = {}, {}
    names = s.text(s.tensors.name)
    for inst, tensor, write in zip(s.uses.inst, s.uses.tensor, s.uses.write):
        (writes if write else reads).setdefault(int(inst), []).append(names[tensor])
    return reads, writes


def _variables(s):
    """Per transfer: the tensor in HBM that it loads, else that it stores, as AWS's agent skills join it with
    TensorInfo; the names of all that it moves if none of them is in HBM."""
    reads, writes = _tensor_names(s)
    spaces = dict(zip(s.text(s.tensors.name), s.text(s.tensors.space)))
    found = {}
    for i in set(s.transfers.inst.tolist()):
        in_hbm = [[n for n in names.get(i, []) if spaces[n] == "hbm"] for names in (reads, writes)]
        found[i] = ",".join(dict.fromkeys(in_hbm[0] or in_hbm[1] or reads.get(i, []) + writes.get(i, [])))
    return [found[i] for i in s.transfers.inst.tolist()]


#: The words of AWS's agent skills for memory that a DMA reads and writes, by a tensor's role. VIRTUAL is theirs for a
#: kernel's own memory that the compiler spills to; here, for all that is no argument and no result.
_MEMORY = {"input": ("INPUT", "INPUT"), "output": ("OUTPUT", "OUTPUT"), "input_output": ("INPUT", "OUTPUT")}


def _memories(s, write):
    """Per transfer: what kind of memory it reads (`write` 0) or writes (1)."""
    spaces, roles, of = s.text(s.tensors.space), s.text(s.tensors.role), {}
    for inst, tensor, writes in zip(s.uses.inst.tolist(), s.uses.tensor.tolist(), s.uses.write.tolist()):
        if bool(writes) == bool(write) and spaces[tensor] == "hbm":
            of.setdefault(inst, _MEMORY.get(roles[tensor], ("VIRTUAL", "VIRTUAL"))[write])
    side = s.transfers.dst if write else s.transfers.src
    return [of.get(i, "VIRTUAL") if SPACES[x] == "HBM" else SPACES[x]
            for x, i in zip(side.tolist(), s.transfers.inst.tolist())]


def _partitions(s):
    """Per static instruction: most partitions of an SBUF or PSUM tensor it reads, and writes."""
    most = np.zeros((2, len(s.insts)), np.int64)
    u = s.uses
    np.maximum.at(most, (u.write.astype(int), u.inst), s.tensors.partitions[u.tensor])
    return most


def dma_packet_aggregated(s):
    t = s.transfers
    start, end = ns(t.first_packet), ns(t.last_packet)
    n = len(t)
    empty, partitions = [""] * n, _partitions(s)
    names = [s.queue_names[(int(c), int(q))] for c, q in zip(t.core, t.queue)]
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start,
        "id": transfer_ids(t.core, t.sequence), "pcore_idx": t.core, "block_id": t.sequence,
        "queue_idx": t.queue, "queue_name": names, "queue_type": _queue_types(t.mode),
        "op": ["transpose" if x else "copy" for x in t.transpose],
        "variable": _variables(s),
        "read_bytes": t.bytes, "write_bytes": t.bytes, "transfer_bytes": t.bytes,
        "throughput": rate(t.bytes, (t.last_packet - t.first_packet) / FS_PER_NS),
        "source": [f"[[{memory}]]" for memory in _memories(s, 0)],
        "dest": [f"[{memory}]" for memory in _memories(s, 1)],
        "semaphore_id": ["-1"] * n, "read_sbuf_partitions": empty,
        "read_num_sbuf_partitions": partitions[0][t.inst], "read_shape": empty, "read_offset": empty,
        "read_steps": empty, "write_sbuf_partitions": empty, "write_num_sbuf_partitions": partitions[1][t.inst],
        "write_shape": empty, "write_offset": empty, "write_steps": empty,
        "is_transpose_mode": t.transpose != 0, "trigger": ns(t.trigger_start),
        "completion": ns(t.visible),
    }


def dma_packet(s):
    """Rows are an engine's share of a transfer: packets that follow each other."""
    x = s.lanes
    start, end = ns(x.start), ns(x.end)
    t = s.transfers
    modes = {(int(c), int(q)): m for c, q, m in zip(t.core, t.queue, _queue_types(t.mode))}
    keys = list(zip(x.core.tolist(), x.queue.tolist()))
    index = np.arange(len(x), dtype=np.int64)
    whole = transfer_ids(x.core, x.sequence)
    variables = dict(zip(transfer_ids(t.core, t.sequence).tolist(), _variables(s)))
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start, "pcore_idx": x.core,
        "id": PACKET_ID + index, "packet_idx": index,
        "packet_aggregation_id": whole, "engine_idx": x.engine,
        "read_bytes": x.bytes, "write_bytes": x.bytes, "transfer_bytes": x.bytes,
        "throughput": rate(x.bytes, (x.end - x.start) / FS_PER_NS),
        "queue_type": [modes.get(k, "unknown") for k in keys],
        "variable": [variables.get(i) for i in whole.tolist()],
        "queue_name": [s.queue_names[k] for k in keys], "queue_idx": x.queue,
        "crc": np.zeros(len(x), np.int64),
    }


def _usage(s, lanes, cores):
    out = RowCollector("timestamp", "current_throughput", "total_transfer_bytes", "pcore_idx")
    x = s.lanes
    for core in range(cores):
        mine = lanes & (x.core == core)
        a, b, size = x.start[mine], x.end[mine], x.bytes[mine]
        speed = size / np.maximum(b - a, 1) * FS_PER_NS * NS_PER_S
        times, rates = steps(np.concatenate([a, b]), np.concatenate([speed, -speed]))
        done_at, done = steps(b, size)
        total = np.concatenate([[0], done])[np.searchsorted(done_at, times, side="right")] \
            if len(done_at) else np.zeros(len(times), np.int64)
        # The sum of shares that come and go leaves rounding errors around zero.
        out.add(timestamp=ns(times), current_throughput=np.maximum(np.round(rates), 0),
                total_transfer_bytes=total, pcore_idx=np.full(len(times), core))
    return out.columns()


def dma_usage(s):
    return _usage(s, np.ones(len(s.lanes), bool), s.cores)


def hbm_usage(s):
    t = s.transfers
    touches = (t.src == 0) | (t.dst == 0)
    mine = np.isin(transfer_ids(s.lanes.core, s.lanes.sequence),
                   transfer_ids(t.core, t.sequence)[touches])
    return _usage(s, mine, s.cores)


def pending_dma(s):
    t, out = s.transfers, RowCollector("timestamp", "value", "pcore_idx")
    for core in range(s.cores):
        mine = t.core == core
        n = int(mine.sum())
        times, values = steps(np.concatenate([t.trigger_start[mine], t.visible[mine]]),
                              np.concatenate([np.ones(n, np.int64), -np.ones(n, np.int64)]))
        out.add(timestamp=ns(times), value=values, pcore_idx=np.full(len(times), core))
    return out.columns()


def dma_queues_info(s):
    t = s.transfers
    kinds = {(int(c), int(q)): m for c, q, m in zip(t.core, t.queue, _queue_types(t.mode))}
    engines = sorted(set(zip(s.lanes.core.tolist(), s.lanes.queue.tolist(),
                             s.lanes.engine.tolist())))
    n = len(engines)
    return {"name": [s.queue_names[(c, q)] for c, q, _ in engines],
            "type": [kinds.get((c, q), "unknown") for c, q, _ in engines],
            "pcore_idx": [c for c, _, _ in engines], "idx": [q for _, q, _ in engines],
            "engine_idx": [e for _, _, e in engines], "axi_port": [0] * n,
            "dram_channel": [0] * n}
