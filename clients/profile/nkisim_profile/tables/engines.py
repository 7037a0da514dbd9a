"""Fills the profile tables of the engines: instructions, activity, semaphores, dependences."""

import numpy as np

from ..session import ENGINES, FS_PER_NS, SPACES, UNITS
from .common import merged, ns, part_ids, transfer_ids

TRANSPOSE, FP32, FP8, MX = 1 << 11, 1 << 9, 1 << 10, 1 << 13  # features of a part
ACTIVATIONS = ("ACTIVATE", "ACTIVATE_QUANTIZE")


def _adjusted(s, features):
    fp8 = 1.0 if s.machine["target"] in ("trn1", "inf2") else 0.5
    return np.select([features & MX != 0, features & FP32 != 0, features & FP8 != 0],
                     [0.25, 4.0, fp8], 1.0)


def instruction(s):
    p = s.parts
    start, end = ns(p.start), ns(p.end)
    where = np.array(s.source(), dtype=object)[p.inst] if len(p) else []
    waits = sum(getattr(s.charged, c) for c in ("wait_engine", "wait_dma", "hbm", "dma_latency",
                                                "dma_engines", "semaphore"))
    transpose = p.features & TRANSPOSE != 0
    adjusted = (p.flops * _adjusted(s, p.features)).astype(np.int64)
    opcodes, zero = s.text(p.opcode), np.zeros(len(p), np.int64)
    texts, frames = _operands(s, opcodes), s.frames.of_inst
    loaded, stored = _of_hbm(s)
    ops = np.array(s.text(s.insts.op), dtype=object)[p.inst]
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start,
        "engine": [ENGINES[e] for e in p.engine], "timeline_track": [UNITS[u] for u in p.unit],
        "pcore_idx": p.core, "opcode": opcodes, "operands": texts,
        "compiler_opcode": opcodes, "compiler_operands": texts, "id": part_ids(s), "pc": s.insts.trace_line[p.inst],
        "compiler_pc": s.insts.trace_line[p.inst],
        "bir_id": [f"I-{n}" for n in p.sequence], "raw_bir_id": p.sequence,
        "bir_instruction_name": ops, "kernel_instruction_name":
            [label or op for label, op in
             zip(np.array(s.text(s.insts.label), dtype=object)[p.inst], ops)],
        "evt_wait_time_ns": ns(waits), "nki_source_location": where,
        "bir_debug_info_source_location": where, "hlo_name": [""] * len(p),
        "layer": [""] * len(p), **_triggered(s),
        "stack_frame_ids": [f"[{frames[i][0]}]" if frames[i][0] else None
                            for i in p.inst.tolist()],
        "hbm_read_bytes": loaded, "hbm_write_bytes": stored,
        "sbuf_read_bytes": p.sbuf_read, "sbuf_write_bytes": p.sbuf_write,
        "psum_read_bytes": p.psum_read, "psum_write_bytes": p.psum_write,
        "psum_read_sbuf_write_bytes": np.where(p.sbuf_write > 0, p.psum_read, 0),
        "input_queue_bytes": zero, "output_queue_bytes": zero, "weight_queue_bytes": zero,
        "scalar_activation_fn": [_function(t) if o in ACTIVATIONS else None
                                 for o, t in zip(opcodes, texts)],
        "spill_save_bytes": zero, "spill_reload_bytes": zero,
        "performance_mode": [m or None for m in s.text(p.mode)],
        "tensor_instruction_type": _products(s, opcodes),
        "tensor_elements": p.elements, "raw_flops": p.flops, "adjusted_flops": adjusted,
        "tensor_elements_transpose": np.where(transpose, p.elements, 0),
        "flops_transpose": np.where(transpose, p.flops, 0),
        "adjusted_flops_transpose": np.where(transpose, adjusted, 0),
    }


def _products(s, opcodes):
    """REGULAR or TRANSPOSE of a product and of the loading of its weights, null for others."""
    p = s.parts
    key = (p.core << 44) + p.sequence
    transposes = set(key[p.features & TRANSPOSE != 0].tolist())
    return [None if unit != 1 and o != "LDWEIGHTS" else "TRANSPOSE" if k in transposes else "REGULAR"
            for unit, o, k in zip(p.unit.tolist(), opcodes, key.tolist())]


def _trigger_rows(s):
    """(rows of the parts that triggered transfers, rows of these)."""
    p, t = s.parts, s.transfers
    row = {key: i for i, key in enumerate(zip(p.core.tolist(), p.inst.tolist(), p.start.tolist()))}
    found = [row.get(key, -1) for key in zip(t.core.tolist(), t.inst.tolist(), t.trigger_start.tolist())]
    of = np.array(found, np.int64)
    return of[of >= 0], np.flatnonzero(of >= 0)


def _of_hbm(s):
    """Bytes that each part's transfers read from HBM, and write to it."""
    t, (parts, transfers) = s.transfers, _trigger_rows(s)
    moved = np.zeros((2, len(s.parts)), np.int64)
    for side, memory in enumerate((t.src, t.dst)):
        np.add.at(moved[side], parts, np.where(memory == SPACES.index("HBM"), t.bytes, 0)[transfers])
    return moved


def _function(operands):
    """The activation function in an ACTIVATE's operands, as the profiler writes it."""
    found = [word[3:] for word in operands.split() if word.startswith("op=")]
    return found[0].upper() if found else None


def _triggered(s):
    """Columns of the DMA that a part triggered, null for others: when it moved, and its delay."""
    p, t = s.parts, s.transfers
    row = {key: i for i, key in enumerate(zip(t.inst.tolist(), t.trigger_start.tolist()))}
    mine = [row.get(key, -1) for key in zip(p.inst.tolist(), p.start.tolist())]
    first, last, end = ns(t.first_packet).tolist(), ns(t.last_packet).tolist(), ns(p.end).tolist()
    return {"dma_trigger_start_ts": [first[i] if i >= 0 else None for i in mine],
            "dma_trigger_end_ts": [last[i] if i >= 0 else None for i in mine],
            "dma_wait_time_ns": [max(0, first[i] - e) if i >= 0 else None
                                 for i, e in zip(mine, end)]}


def _operands(s, opcodes):
    """As the profiler writes them: without the opcode, and with a product's moving tensor as src."""
    texts = [t[len(o) + 1:] if t.startswith(o + " ") else t for o, t in zip(opcodes, s.text(s.parts.operands))]
    return [t.replace("moving=", "src=", 1) if o == "MATMUL" else t for o, t in zip(opcodes, texts)]


def active_time(s):
    rows = {"start_ts": [], "end_ts": [], "engine": [], "pcore_idx": [], "duration_ns": []}

    def add(core, engine, start, end):
        a, b = merged(start, end)
        a, b = ns(a), ns(b)
        for key, value in (("start_ts", a), ("end_ts", b), ("duration_ns", b - a)):
            rows[key].extend(value.tolist())
        rows["engine"].extend([engine] * len(a))
        rows["pcore_idx"].extend([core] * len(a))

    p, t = s.parts, s.transfers
    for core in range(s.cores):
        for e, engine in enumerate(ENGINES):
            mine = (p.core == core) & (p.engine == e)
            add(core, engine.lower(), p.start[mine], p.end[mine])  # as AWS's agent skills read it
        mine = (t.core == core) & (t.packets > 0)
        add(core, "DMA", t.first_packet[mine], t.last_packet[mine])
    return rows


def semaphore_update(s):
    x = s.semaphores
    return {"timestamp": ns(x.time), "id": [f"S[{n}]" for n in x.semaphore], "value": x.value,
            "pcore_idx": x.core}


def opcode_summary(s):
    p = s.parts
    total = max(1, s.end_fs)
    rows = {k: [] for k in ("engine", "opcode", "instruction_count", "instruction_time_ns",
                            "active_time_ns", "active_time_percent")}
    for e, engine in enumerate(ENGINES):
        numbers = {}
        for n in np.unique(p.opcode[p.engine == e]).tolist():
            numbers.setdefault(s.texts[n], []).append(n)
        for opcode in sorted(numbers):
            mine = (p.engine == e) & np.isin(p.opcode, numbers[opcode])
            a, b = merged(p.start[mine], p.end[mine])
            active = int((b - a).sum())
            for key, value in (("engine", engine), ("opcode", opcode),
                               ("instruction_count", int(mine.sum())),
                               ("instruction_time_ns",
                                int((p.end - p.start)[mine].sum()) // FS_PER_NS),
                               ("active_time_ns", active // FS_PER_NS),
                               ("active_time_percent", active / total)):
                rows[key].append(value)
    return rows


def _found(keys, wanted):
    """Per wanted key the last row of `keys` that holds it, -1 for none."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, side="right") - 1
    rows = order[np.maximum(at, 0)]
    return np.where(keys[rows] == wanted, rows, -1)


def _event_key(core, who, sequence):
    return (core << 58) + (who << 44) + sequence


def producers(s):
    """Per part: the row of the part it waited for and the row of the transfer, -1 for none."""
    p, t = s.parts, s.transfers
    wanted = np.where(p.producer >= 0,
                      _event_key(p.core, p.producer, p.producer_sequence), -1)
    is_transfer = p.producer >= len(ENGINES)
    parts = _found(_event_key(p.core, p.engine, p.sequence), wanted)
    transfers = _found(_event_key(t.core, t.queue, t.sequence), wanted)
    return np.where(is_transfer, -1, parts), np.where(is_transfer, transfers, -1)


def flow(s):
    p, t = s.parts, s.transfers
    parts, transfers = producers(s)
    rows = np.flatnonzero((parts >= 0) | (transfers >= 0))
    is_part = parts[rows] >= 0
    ids = part_ids(s)
    dma = np.append(transfer_ids(t.core, t.sequence), -1)  # -1: none
    end = np.where(is_part, p.end[parts[rows]], np.append(t.last_packet, 0)[transfers[rows]])
    by, moved = _trigger_rows(s)
    return {"in_id": np.append(np.where(is_part, ids[parts[rows]], dma[transfers[rows]]), ids[by]),
            "out_id": np.append(ids[rows], dma[moved]),
            "in_table": np.where(is_part, "Instruction", "DmaPacketAggregated").tolist() + ["Instruction"] * len(by),
            "out_table": ["Instruction"] * len(rows) + ["DmaPacketAggregated"] * len(by),
            "dependency_type": ["FLOW_DEPENDENCE"] * len(rows) + ["DGE_TRIGGER"] * len(by),
            "gap_time": np.append(ns(np.maximum(0, p.start[rows] - end)),
                                  ns(np.maximum(0, t.first_packet[moved] - p.end[by])))}
