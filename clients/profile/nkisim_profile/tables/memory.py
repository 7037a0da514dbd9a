"""Fills the profile tables of the memories: the tensors that each holds, and for how long."""

import numpy as np

from .common import ns, steps

BANKS = 8


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
    return {"start_ts": ns(first[which]), "end_ts": ns(last[which]),
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

        def share(weight, mine=mine, times=times):
            change = t.bytes[mine] * weight / size
            return steps(times, np.concatenate([change, -change]))

        at, avg = share(t.partitions[mine] / 128)
        out["timestamp"].extend(ns(at).tolist())
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
        out["timestamp"].extend(ns(at).tolist())
        out["avg_util_percent"].extend(np.mean(banks, axis=0).tolist())
        out["pcore_idx"].extend([core] * len(at))
    return out


#: The words of AWS's agent skills for the roles (performance-bounds.md); others are not shown there.
_TYPES = {"input": "IN", "output": "OUT", "input_output": "IN"}


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
    return {"variable_name": [names[i] for i in hbm], "type": [_TYPES.get(roles[i], roles[i].upper()) for i in hbm],
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
