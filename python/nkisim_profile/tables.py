"""The tables of AWS's Neuron Explorer (schema 7.4.0), filled from a session.

Every value is from the simulated run. Columns the schema requires but a simulation does not have
hold an empty text or 0; optional ones are null. Time stamps are whole nanoseconds from the start.
"""

import json
import pathlib

import numpy as np

from .session import ENGINES, FS_PER_NS, SPACES, UNITS

SCHEMA = json.loads(pathlib.Path(__file__).with_name("schema_7_4_0.json").read_text())["tables"]
VERSION = "7.4.0"
DMA_KINDS = {1: "software_dynamic", 2: "hardware_dynamic", 3: "instruction"}
TRANSPOSE, FP32, FP8, MX = 1 << 11, 1 << 9, 1 << 10, 1 << 13  # features of a part
BANKS = 8
# Ids are unique over the tables: what, core, number and part in one integer.
PART_ID, TRANSFER_ID, PACKET_ID = 1 << 52, 2 << 52, 3 << 52


def _ns(fs):
    return np.asarray(fs, dtype=np.int64) // FS_PER_NS


def part_ids(s):
    p = s.parts
    return PART_ID + (p.core << 46) + (p.sequence << 14) + (p.engine << 10) + p.part


def transfer_ids(core, sequence):
    return TRANSFER_ID + (core << 46) + sequence


def steps(times, changes):
    """A running sum: the distinct times and the value from each on."""
    times, changes = np.asarray(times), np.asarray(changes)
    if not len(times):
        return times, changes
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    last = np.append(times[1:] != times[:-1], True)
    return times[last], values[last]


def merged(start, end):
    """The union of intervals as two arrays."""
    start, end = np.asarray(start), np.asarray(end)
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)]


def _adjusted(s, features):
    fp8 = 1.0 if s.machine["target"] in ("trn1", "inf2") else 0.5
    return np.select([features & MX != 0, features & FP32 != 0, features & FP8 != 0],
                     [0.25, 4.0, fp8], 1.0)


def instruction(s):
    p = s.parts
    start, end = _ns(p.start), _ns(p.end)
    where = np.array(s.source(), dtype=object)[p.inst] if len(p) else []
    waits = sum(getattr(s.charged, c) for c in ("wait_engine", "wait_dma", "hbm", "dma_latency",
                                                "dma_engines", "semaphore"))
    transpose = p.features & TRANSPOSE != 0
    is_pe = p.unit == 1
    adjusted = (p.flops * _adjusted(s, p.features)).astype(np.int64)
    opcodes, zero = s.text(p.opcode), np.zeros(len(p), np.int64)
    ops = np.array(s.text(s.insts.op), dtype=object)[p.inst]
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start,
        "engine": [ENGINES[e] for e in p.engine], "timeline_track": [UNITS[u] for u in p.unit],
        "pcore_idx": p.core, "opcode": opcodes, "operands": _operands(s, opcodes),
        "compiler_opcode": opcodes, "id": part_ids(s), "pc": s.insts.trace_line[p.inst],
        "compiler_pc": s.insts.trace_line[p.inst],
        "bir_id": [f"I-{n}" for n in p.sequence], "raw_bir_id": p.sequence,
        "bir_instruction_name": ops, "kernel_instruction_name":
            [label or op for label, op in
             zip(np.array(s.text(s.insts.label), dtype=object)[p.inst], ops)],
        "evt_wait_time_ns": _ns(waits), "nki_source_location": where,
        "bir_debug_info_source_location": where, "hlo_name": [""] * len(p),
        "layer": [""] * len(p), "hbm_read_bytes": zero, "hbm_write_bytes": zero,
        "sbuf_read_bytes": p.sbuf_read, "sbuf_write_bytes": p.sbuf_write,
        "psum_read_bytes": p.psum_read, "psum_write_bytes": p.psum_write,
        "spill_save_bytes": zero, "spill_reload_bytes": zero,
        "performance_mode": [m or None for m in s.text(p.mode)],
        "tensor_instruction_type": [None if not pe else "TRANSPOSE" if t else "REGULAR"
                                    for pe, t in zip(is_pe, transpose)],
        "tensor_elements": p.elements, "raw_flops": p.flops, "adjusted_flops": adjusted,
        "tensor_elements_transpose": np.where(transpose, p.elements, 0),
        "flops_transpose": np.where(transpose, p.flops, 0),
        "adjusted_flops_transpose": np.where(transpose, adjusted, 0),
    }


def _operands(s, opcodes):
    texts = s.text(s.parts.operands)
    return [t[len(o) + 1:] if t.startswith(o + " ") else t for o, t in zip(opcodes, texts)]


def _queue_types(modes):
    return [DMA_KINDS.get(int(m), "unknown") for m in modes]


def _tensor_names(s):
    """Per static instruction: the names of the tensors it reads and writes."""
    reads, writes = {}, {}
    names = s.text(s.tensors.name)
    for inst, tensor, write in zip(s.uses.inst, s.uses.tensor, s.uses.write):
        (writes if write else reads).setdefault(int(inst), []).append(names[tensor])
    return reads, writes


def _rate(size, time):
    return np.divide(size, time, out=np.zeros(len(size)), where=np.asarray(time) > 0)


def dma_packet_aggregated(s):
    t = s.transfers
    start, end = _ns(t.first_packet), _ns(t.last_packet)
    reads, writes = _tensor_names(s)
    n = len(t)
    source = [SPACES[x] for x in t.src]
    dest = [SPACES[x] for x in t.dst]
    empty, zero = [""] * n, np.zeros(n, np.int64)
    names = [s.queue_names[(int(c), int(q))] for c, q in zip(t.core, t.queue)]
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start,
        "id": transfer_ids(t.core, t.sequence), "pcore_idx": t.core, "block_id": t.sequence,
        "queue_idx": t.queue, "queue_name": names, "queue_type": _queue_types(t.mode),
        "op": ["transpose" if x else "copy" for x in t.transpose],
        "variable": [",".join(dict.fromkeys(reads.get(int(i), []) + writes.get(int(i), [])))
                     for i in t.inst],
        "read_bytes": t.bytes, "write_bytes": t.bytes, "transfer_bytes": t.bytes,
        "throughput": _rate(t.bytes, (t.last_packet - t.first_packet) / FS_PER_NS),
        "source": [f"[{a}] " + ",".join(reads.get(int(i), [])) for a, i in zip(source, t.inst)],
        "dest": [f"[{a}] " + ",".join(writes.get(int(i), [])) for a, i in zip(dest, t.inst)],
        "semaphore_id": ["-1"] * n, "read_sbuf_partitions": empty,
        "read_num_sbuf_partitions": zero, "read_shape": empty, "read_offset": empty,
        "read_steps": empty, "write_sbuf_partitions": empty, "write_num_sbuf_partitions": zero,
        "write_shape": empty, "write_offset": empty, "write_steps": empty,
        "is_transpose_mode": t.transpose != 0, "trigger": _ns(t.trigger_start),
        "completion": _ns(t.visible),
    }


def dma_packet(s):
    """Rows are an engine's share of a transfer: packets that follow each other."""
    x = s.lanes
    start, end = _ns(x.start), _ns(x.end)
    t = s.transfers
    modes = {(int(c), int(q)): m for c, q, m in zip(t.core, t.queue, _queue_types(t.mode))}
    keys = list(zip(x.core.tolist(), x.queue.tolist()))
    index = np.arange(len(x), dtype=np.int64)
    return {
        "start_ts": start, "end_ts": end, "duration_ns": end - start, "pcore_idx": x.core,
        "id": PACKET_ID + index, "packet_idx": index,
        "packet_aggregation_id": transfer_ids(x.core, x.sequence), "engine_idx": x.engine,
        "read_bytes": x.bytes, "write_bytes": x.bytes, "transfer_bytes": x.bytes,
        "throughput": _rate(x.bytes, (x.end - x.start) / FS_PER_NS),
        "queue_type": [modes.get(k, "unknown") for k in keys],
        "queue_name": [s.queue_names[k] for k in keys], "queue_idx": x.queue,
        "crc": np.zeros(len(x), np.int64),
    }


def active_time(s):
    rows = {"start_ts": [], "end_ts": [], "engine": [], "pcore_idx": [], "duration_ns": []}

    def add(core, engine, start, end):
        a, b = merged(start, end)
        a, b = _ns(a), _ns(b)
        for key, value in (("start_ts", a), ("end_ts", b), ("duration_ns", b - a)):
            rows[key].extend(value.tolist())
        rows["engine"].extend([engine] * len(a))
        rows["pcore_idx"].extend([core] * len(a))

    p, t = s.parts, s.transfers
    for core in range(s.cores):
        for e, engine in enumerate(ENGINES):
            mine = (p.core == core) & (p.engine == e)
            add(core, engine, p.start[mine], p.end[mine])
        mine = (t.core == core) & (t.packets > 0)
        add(core, "DMA", t.first_packet[mine], t.last_packet[mine])
    return rows


def semaphore_update(s):
    x = s.semaphores
    return {"timestamp": _ns(x.time), "id": [f"S[{n}]" for n in x.semaphore], "value": x.value,
            "pcore_idx": x.core}


def _usage(s, lanes, cores):
    out = {"timestamp": [], "current_throughput": [], "total_transfer_bytes": [], "pcore_idx": []}
    x = s.lanes
    for core in range(cores):
        mine = lanes & (x.core == core)
        a, b, size = x.start[mine], x.end[mine], x.bytes[mine]
        rate = size / np.maximum(b - a, 1) * FS_PER_NS
        times, rates = steps(np.concatenate([a, b]), np.concatenate([rate, -rate]))
        done_at, done = steps(b, size)
        total = np.concatenate([[0], done])[np.searchsorted(done_at, times, side="right")] \
            if len(done_at) else np.zeros(len(times), np.int64)
        out["timestamp"].extend(_ns(times).tolist())
        # The sum of shares that come and go leaves rounding errors around zero.
        out["current_throughput"].extend(np.maximum(np.round(rates, 6), 0).tolist())
        out["total_transfer_bytes"].extend(total.tolist())
        out["pcore_idx"].extend([core] * len(times))
    return out


def dma_usage(s):
    return _usage(s, np.ones(len(s.lanes), bool), s.cores)


def hbm_usage(s):
    t = s.transfers
    touches = (t.src == 0) | (t.dst == 0)
    mine = np.isin(transfer_ids(s.lanes.core, s.lanes.sequence),
                   transfer_ids(t.core, t.sequence)[touches])
    return _usage(s, mine, s.cores)


def pending_dma(s):
    t, out = s.transfers, {"timestamp": [], "value": [], "pcore_idx": []}
    for core in range(s.cores):
        mine = t.core == core
        n = int(mine.sum())
        times, values = steps(np.concatenate([t.trigger_start[mine], t.visible[mine]]),
                              np.concatenate([np.ones(n, np.int64), -np.ones(n, np.int64)]))
        out["timestamp"].extend(_ns(times).tolist())
        out["value"].extend(values.tolist())
        out["pcore_idx"].extend([core] * len(times))
    return out


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


def lifetimes(s):
    """Per tensor: first use and last use in fs (-1 if never used), from the instructions run."""
    first = np.full(len(s.tensors), np.iinfo(np.int64).max)
    last = np.full(len(s.tensors), -1)
    n = len(s.insts)
    inst_first, inst_last = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    for index, start, end in ((s.parts.inst, s.parts.start, s.parts.end),
                              (s.transfers.inst, s.transfers.trigger_start, s.transfers.visible)):
        np.minimum.at(inst_first, index, start)
        np.maximum.at(inst_last, index, end)
    np.minimum.at(first, s.uses.tensor, inst_first[s.uses.inst])
    np.maximum.at(last, s.uses.tensor, inst_last[s.uses.inst])
    return np.where(last < 0, -1, first), last


def _on_chip(s, space):
    spaces = np.array(s.text(s.tensors.space), dtype=object)
    first, last = lifetimes(s)
    return np.flatnonzero((spaces == space) & (last >= 0)), first, last


def sbuf_allocation(s):
    t = s.tensors
    which, first, last = _on_chip(s, "sbuf")
    names = s.text(t.name)
    return {"start_ts": _ns(first[which]), "end_ts": _ns(last[which]),
            "start_address": t.address[which], "end_address": (t.address + t.bytes)[which],
            "partition": t.partition[which], "tensor_name": [names[i] for i in which],
            "op_source_type": ["kernel"] * len(which), "pcore_idx": t.core[which]}


def sbuf_usage(s):
    """Bytes of live tensors per partition; a tensor lives from its first to its last use."""
    t = s.tensors
    size = s.machine["sbuf_partition_bytes"]
    which, first, last = _on_chip(s, "sbuf")
    out = {"timestamp": [], "pcore_idx": []}
    out.update({k: [] for k in ["avg_util_percent"]
                + [f"partition_{p}_util_percent" for p in (0, 32, 64, 96)]})
    for core in range(s.cores):
        mine = which[t.core[which] == core]
        times = np.concatenate([first[mine], last[mine]])

        def share(weight):
            change = t.bytes[mine] * weight / size
            return steps(times, np.concatenate([change, -change]))

        at, avg = share(t.partitions[mine] / 128)
        out["timestamp"].extend(_ns(at).tolist())
        out["avg_util_percent"].extend(np.maximum(avg, 0).round(9).tolist())
        for p in (0, 32, 64, 96):
            covers = (t.partition[mine] <= p) & (p < (t.partition + t.partitions)[mine])
            out[f"partition_{p}_util_percent"].extend(
                np.maximum(share(covers.astype(float))[1], 0).round(9).tolist())
        out["pcore_idx"].extend([core] * len(at))
    return out


def psum_usage(s):
    t = s.tensors
    bank = s.machine["psum_bank_bytes"]
    which, first, last = _on_chip(s, "psum")
    names = [f"bank_{b}_util_percent" for b in range(BANKS)]
    out = {k: [] for k in ["timestamp", "avg_util_percent", "pcore_idx"] + names}
    for core in range(s.cores):
        mine = which[t.core[which] == core]
        times = np.concatenate([first[mine], last[mine]])
        begin, end = t.address[mine], (t.address + t.bytes)[mine]
        banks = []
        for b in range(BANKS):
            inside = np.clip(np.minimum(end, (b + 1) * bank) - np.maximum(begin, b * bank), 0, bank)
            at, values = steps(times, np.concatenate([inside, -inside]) / bank)
            banks.append(np.clip(values, 0, None).round(9))
        for key, values in zip(names, banks):
            out[key].extend(values.tolist())
        out["timestamp"].extend(_ns(at).tolist())
        out["avg_util_percent"].extend(np.mean(banks, axis=0).tolist())
        out["pcore_idx"].extend([core] * len(at))
    return out


def opcode_summary(s):
    p = s.parts
    opcodes = np.array(s.text(p.opcode), dtype=object)
    total = max(1, int((s.facts["accounting"]["end_fs"])))
    rows = {k: [] for k in ("engine", "opcode", "instruction_count", "instruction_time_ns",
                            "active_time_ns", "active_time_percent")}
    for e, engine in enumerate(ENGINES):
        for opcode in sorted(set(opcodes[p.engine == e])):
            mine = (p.engine == e) & (opcodes == opcode)
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


def producers(s):
    """Row of the part or transfer each part waited for: (part rows, producer rows, is_transfer)."""
    p, t = s.parts, s.transfers
    last_part = {}
    for row, key in enumerate(zip(p.core.tolist(), p.engine.tolist(), p.sequence.tolist())):
        last_part[key] = row
    transfer = {key: row for row, key in enumerate(zip(t.core.tolist(), t.queue.tolist(),
                                                       t.sequence.tolist()))}
    pairs = []
    for row in np.flatnonzero(p.producer >= 0).tolist():
        key = (int(p.core[row]), int(p.producer[row]), int(p.producer_sequence[row]))
        is_transfer = key[1] >= len(ENGINES)
        found = (transfer if is_transfer else last_part).get(key)
        if found is not None:
            pairs.append((row, found, is_transfer))
    return pairs


def flow(s):
    p, t, ids = s.parts, s.transfers, part_ids(s)
    dma = transfer_ids(t.core, t.sequence)
    rows = {k: [] for k in ("in_id", "out_id", "in_table", "out_table", "dependency_type",
                            "gap_time")}
    for row, found, is_transfer in producers(s):
        end = t.last_packet[found] if is_transfer else p.end[found]
        for key, value in (("in_id", dma[found] if is_transfer else ids[found]),
                           ("out_id", ids[row]),
                           ("in_table", "DmaPacketAggregated" if is_transfer else "Instruction"),
                           ("out_table", "Instruction"),
                           ("dependency_type", "FLOW_DEPENDENCE"),
                           ("gap_time", max(0, int(p.start[row] - end)) // FS_PER_NS)):
            rows[key].append(value if isinstance(value, str) else int(value))
    return rows


def kernel_instructions(s):
    i = s.insts
    known = [k for k in range(len(i)) if s.texts[i.file[k]]]
    names = s.text(i.label)
    ops = s.text(i.op)
    return {"kernel_instruction_name": [names[k] or ops[k] for k in known],
            "stack_frame_depth": [0] * len(known), "stack_frame_id": known,
            "pcore_idx": [int(i.core[k]) for k in known],
            "file_path": [s.texts[i.file[k]] for k in known],
            "line_number": [int(i.line[k]) for k in known]}


def kernel_stack_frames(s):
    rows = kernel_instructions(s)
    return {"stack_frame_id": rows["stack_frame_id"], "pcore_idx": rows["pcore_idx"],
            "file_path": rows["file_path"], "line_number": rows["line_number"]}


def tensor_info(s):
    t = s.tensors
    loads = {}
    bytes_of = {}
    for inst, size in zip(s.transfers.inst.tolist(), s.transfers.bytes.tolist()):
        bytes_of.setdefault(inst, []).append(size)
    for inst, tensor, write in zip(s.uses.inst.tolist(), s.uses.tensor.tolist(),
                                   s.uses.write.tolist()):
        if not write:
            loads.setdefault(tensor, []).extend(bytes_of.get(inst, []))
    spaces = s.text(t.space)
    hbm = [i for i, space in enumerate(spaces) if space == "hbm"]
    total = [sum(loads.get(i, [])) for i in hbm]
    count = [len(loads.get(i, [])) for i in hbm]
    names, dtypes, shapes, roles = (s.text(c) for c in (t.name, t.dtype, t.shape, t.role))
    return {"variable_name": [names[i] for i in hbm], "type": [roles[i] for i in hbm],
            "format": [dtypes[i] for i in hbm], "shape": [shapes[i] for i in hbm],
            "size": [int(t.bytes[i]) for i in hbm], "node": [0] * len(hbm),
            "pcore_idx": [int(t.core[i]) for i in hbm],
            "load_to_sbuf_total_size_bytes": total, "load_to_sbuf_dma_count": count,
            "load_to_sbuf_avg_size_bytes": [a // b if b else 0 for a, b in zip(total, count)],
            "load_to_sbuf_repeat_factor": [a / max(1, int(t.bytes[i]))
                                           for a, i in zip(total, hbm)]}


def hbm_usage_by_type(s):
    t = s.tensors
    usage = {}
    for space, role, size in zip(s.text(t.space), s.text(t.role), t.bytes.tolist()):
        if space == "hbm":
            usage[role] = usage.get(role, 0) + size
    n = len(usage)
    return {"neuron_device_idx": [0] * n, "neuroncore_idx": [0] * n,
            "usage_type": list(usage), "usage_bytes": list(usage.values())}


SMALL_DMA, TARGET_DMA = 4096, 32768


def warnings(s):
    """The profiler's rules of thumb, on core 0."""
    m, rows = s.summary(), []
    if s.facts.get("partial"):
        rows.append(("partial", "the run was interrupted: these tables end early"))
    if m["transpose_flops"] > 0.1 * max(1, m["hardware_flops"]):
        rows.append(("transpose", "over 10 % of the PE array's work is transposes"))
    if 0 < m["dma_transfer_average_bytes"] < TARGET_DMA:
        rows.append(("dma", f"the average DMA moves {m['dma_transfer_average_bytes']:.0f} bytes; "
                            "32 KiB or more use the bandwidth"))
    small = int((s.transfers.descriptor_bytes < 512).sum())
    if small:
        rows.append(("dma", f"{small} of {len(s.transfers)} DMAs have elements under 512 bytes"))
    return {"message": [r[1] for r in rows], "category": [r[0] for r in rows]}


def summary(s):
    rows = [s.summary(core) for core in range(s.cores)]
    known = [c[0] for c in SCHEMA["Summary"]]
    out = {name: [row.get(name, 0) for row in rows] for name in known}
    out["trace_count"] = [int((s.parts.core == c).sum()) for c in range(s.cores)]
    out["total_row_count"] = [len(s.parts) + len(s.transfers) + len(s.lanes)] * s.cores
    return out


def metadata(s):
    m = s.machine
    end = int(s.facts["accounting"]["end_fs"]) // FS_PER_NS
    clocks = {e: m["clocks_ghz"][e] * 1e9 for e in ("tensor", "vector", "scalar", "gpsimd")}
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
           "neuroncore_clock_freq": m["base_clock_ghz"] * 1e9, "ticks_per_nanosec": 1,
           "instance_type": m["instance_type"], "neuroncore_idx": 0, "neuron_device_idx": 0,
           "profile_name": s.facts.get("trace", ""), "is_simulation": True}
    return {k: [v] for k, v in row.items()}


def schema_fields(_s):
    rows = [(table, name, kind, required, unit) for table, columns in SCHEMA.items()
            for name, kind, unit, required in columns]
    n = len(rows)
    return {"table_name": [r[0] for r in rows], "table_description": [""] * n,
            "field_name": [r[1] for r in rows], "field_description": [""] * n,
            "field_type": [r[2] for r in rows], "field_required": [r[3] for r in rows],
            "field_unit": [r[4] for r in rows]}


TABLES = {
    "Summary": summary, "Instruction": instruction, "DmaPacket": dma_packet,
    "DmaPacketAggregated": dma_packet_aggregated, "ActiveTime": active_time,
    "SemaphoreUpdate": semaphore_update, "DmaUsage": dma_usage, "PendingDma": pending_dma,
    "DmaQueuesInfo": dma_queues_info, "SbufUsage": sbuf_usage,
    "SbufAllocation": sbuf_allocation, "PsumUsage": psum_usage, "HbmUsage": hbm_usage,
    "HbmUsageSummaryByType": hbm_usage_by_type, "OpcodeSummary": opcode_summary, "Flow": flow,
    "KernelInstructions": kernel_instructions, "KernelStackFrames": kernel_stack_frames,
    "TensorInfo": tensor_info, "Warning": warnings, "Metadata": metadata,
    "SchemaFields": schema_fields,
}
