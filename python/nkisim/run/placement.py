"""Gives on-chip tensors their addresses when the kernel has been recorded."""

import os

from ..values.errors import Error
from ..values.storage import PSUM, SBUF
from . import allocator, packing


def place(recorder, options, thorough=True, packed=None):
    """Gives every on-chip tensor its address; Error lists the largest live tensors.

    `packed`: ids of the tensors with an address of their own, if narrow ones of the others may be
    put side by side (packing.py).
    """
    spans = recorder.program.lifetimes()
    groups = None if packed is None else recorder.program.partition_groups(packed)
    peaks = {}
    for core in sorted({st.core for st in recorder.storages}):
        for space, label in ((SBUF, "SBUF"), (PSUM, "PSUM")):
            items = [_item(recorder, st, spans[st.id]) for st in recorder.storages
                     if st.space == space and st.core == core and (
                         spans[st.id][0] >= 0 or st.address is not None)]
            if items:
                peaks[(core, label)] = _place_space(recorder, items, label, options, thorough,
                                                    groups)
    return peaks


def _item(recorder, st, span):
    first, last = span[0], span[1]
    for core, begin, end in recorder.loop_spans:
        if core != st.core or first < 0:
            continue
        # What is allocated before a loop and used inside must live through all iterations.
        if st.born <= begin and first <= end and last >= begin:
            first, last = min(first, begin), max(last, end)
    return allocator.Item(st.id, st.pitch_bytes, max(first, 0), max(last, 0), st.name,
                          "", -1 if st.address is None else st.address)


def _place_space(recorder, items, label, options, thorough, groups):
    machine = recorder.machine
    capacity = machine[f"{label.lower()}_partition_bytes"]
    bank = machine["psum_partition_bytes"] // machine["psum_banks"] if label == "PSUM" else 0
    try:
        if groups is not None and label == "SBUF":
            placed = _pack(recorder, items, capacity, groups)
        else:
            placed = allocator.place(items, capacity, bank, not options.over_capacity, thorough)
    except allocator.OutOfSpace as problem:
        raise _capacity_error(recorder, problem, label, capacity) from None
    if placed.peak > capacity and not options.over_capacity:
        worst = max(items, key=lambda i: placed.addresses[i.id] + i.bytes)
        raise located(recorder, worst.id, f"{worst.name} ends at byte {placed.peak} of a "
                      f"partition; {label} has {capacity}")
    for item in items:
        recorder.program.set_address(item.id, placed.addresses[item.id])
    return placed.peak


def _pack(recorder, items, capacity, groups):
    by_id = {st.id: st for st in recorder.storages}
    rows = {i.id: (by_id[i.id].partition, by_id[i.id].shape[0]) for i in items}
    placed = packing.pack(items, groups, rows, capacity)
    if not recorder.program.move_partitions(sorted(placed.starts.items())):
        worst = max(items, key=lambda i: i.bytes)  # instructions that no group foresaw
        raise allocator.OutOfSpace(worst, [i for i in items if i is not worst])
    return placed


def located(recorder, tensor_id, message):
    file, line = recorder.program.tensor_location(tensor_id)
    return Error(message, instruction="ndarray", kernel_file=file, kernel_line=line)


def _capacity_error(recorder, problem, label, capacity):
    live = sorted([*problem.live, problem.item], key=lambda i: -i.bytes)
    total = sum(i.bytes for i in live)
    lines = [f"{label} is full: {problem.item.name} needs {problem.item.bytes} bytes per partition "
             f"while {len(live) - 1} other tensors are live ({total} bytes together, {capacity} "
             "exist). The largest live tensors:"]
    for i in live[:8]:
        file, line = recorder.program.tensor_location(i.id)
        lines.append(f"    {i.bytes:>8} bytes  {i.name:<20} {os.path.basename(file)}:{line}")
    lines.append("    (over_capacity=True or NKISIM_OVER_CAPACITY=1 runs it all the same)")
    return located(recorder, problem.item.id, "\n".join(lines))
