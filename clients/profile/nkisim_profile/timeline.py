"""Writes a saved run's timeline as `nkisim run` does: Perfetto's protobuf or Chrome's trace events.

Processes, rows and slices are those of --perfetto and --chrome; counters are left to the run.
"""

import json

from .session import FS_PER_NS, UNITS, BadSession


FIRST_TRACK = 1 << 20  # of Perfetto's ids, behind those of processes


class Rows:
    """Slices of a family in rows without overlaps, first fit."""

    def __init__(self):
        self.free = {}

    def place(self, family, start, end):
        free = self.free.setdefault(family, [])
        for row, until in enumerate(free):
            if until <= start:
                free[row] = end
                break
        else:
            row = len(free)
            free.append(end)
        return f"{family[1]} - Row {row}"


def _part_slices(s):
    p, source = s.parts, s.source()
    texts, ops = s.texts, s.text(s.insts.op)
    for i in range(len(p)):
        inst = int(p.inst[i])
        start, end = int(p.start[i]), int(p.end[i])
        opcode = texts[p.opcode[i]]
        args = {"timestamp": start // FS_PER_NS, "duration": (end - start) // FS_PER_NS,
                "opcode": opcode, "id": int(p.sequence[i]), "instruction": ops[inst],
                "elements": int(p.elements[i]), "pc": int(s.insts.trace_line[inst]),
                "label": UNITS[p.unit[i]], "operands": texts[p.operands[i]],
                "nki_source_location": source[inst] if texts[s.insts.file[inst]] else "",
                "performance_mode": texts[p.mode[i]]}
        yield int(p.core[i]), f"{UNITS[p.unit[i]]} Engine", opcode, start, end, args


def _dma_slices(s):
    x, t, ops = s.lanes, s.transfers, s.text(s.insts.op)
    for i in range(len(x)):
        core = int(x.core[i])
        yield (core, f"DMA Engine {x.engine[i]}", s.queue_names[core, int(x.queue[i])],
               int(x.start[i]), int(x.end[i]),
               {"transfer_size": int(x.bytes[i]), "packets": int(x.packets[i]),
                "id": int(x.sequence[i])})
    for i in range(len(t)):
        core = int(t.core[i])
        yield (core, s.queue_names[core, int(t.queue[i])], ops[t.inst[i]],
               int(t.trigger_start[i]), int(t.visible[i]),
               {"transfer_size": int(t.bytes[i]), "packets": int(t.packets[i]),
                "id": int(t.sequence[i]), "first_packet": int(t.first_packet[i]) // FS_PER_NS})


def _collective_slices(s):
    c, x, ops = s.collectives, s.cc_instructions, s.text(s.insts.op)
    texts, source = s.texts, s.source()
    steps = {}
    for j, i in enumerate(x.collective.tolist()):
        steps.setdefault(i, []).append(j)
    for i in range(len(c)):
        if c.core[i]:
            continue  # each core of a rank has triggered it; it is drawn once
        inst, of = int(c.inst[i]), steps.get(i, [])
        row = f"CC-core {x.cc_core[of[0]]}" if of else "CC-core"
        args = {"transfer_size": int(c.input[i]), "id": int(c.id[i]), "instruction": ops[inst],
                "algorithm": texts[c.algorithm[i]], "replica_group": texts[c.group[i]]}
        if c.waited_for[i] >= 0:
            args["waited_for_rank"] = int(c.waited_for[i])
        args["nki_source_location"] = source[inst] if texts[s.insts.file[inst]] else ""
        yield 0, row, texts[c.operation[i]], int(c.start[i]), int(c.end[i]), args
        for j in of:
            yield (0, f"{row} instructions", texts[x.description[j]], int(x.start[j]), int(x.end[j]),
                   {"id": int(c.id[i])})


def slices(s):
    """(core, track, name, start ns, end ns, arguments), rows filled in the session's order."""
    rows = Rows()
    for make in (_part_slices, _dma_slices, _collective_slices):
        for core, family, name, start, end, args in make(s):
            track = rows.place((core, family), start, end)
            yield (core, track, name, start // FS_PER_NS, end // FS_PER_NS,
                   {k: v for k, v in args.items() if v != ""})


def instants(s):
    x = s.semaphores
    for core, number, value, time in zip(x.core.tolist(), x.semaphore.tolist(), x.value.tolist(),
                                         x.time.tolist()):
        yield core, f"S[{number}]", f"S[{number}] = {value}", time // FS_PER_NS
    if s.facts.get("partial"):
        yield 0, "Run", "interrupted here: this timeline is partial", s.end_fs // FS_PER_NS


def chrome(s):
    """The JSON object format: times in microseconds."""
    return write_chrome(slices(s), instants(s))


def _title(core):
    return f"Instructions {core}"


def _number(core, processes):
    """The number of a process: one more than its core, or in the order in which others appear."""
    return processes.setdefault(core, core + 1 if isinstance(core, int) else len(processes) + 1)


def write_chrome(bars, points, arrows=(), title=_title):
    """Slices and instants, as slices() and instants() give them; a process per core, or whatever
    stands in its place, called title(it). arrows: (number, core, track, ns, whether it ends)."""
    events, tracks, processes = [], {}, {}

    def track(core, name):
        if (core, name) not in tracks:
            tracks[core, name] = len(tracks) + 1
            if core not in processes:
                events.append({"ph": "M", "pid": _number(core, processes), "name": "process_name",
                               "args": {"name": title(core)}})
            events.append({"ph": "M", "pid": processes[core], "tid": tracks[core, name],
                           "name": "thread_name", "args": {"name": name}})
        return {"pid": processes[core], "tid": tracks[core, name]}

    for core, name, what, start, end, args in bars:
        events.append({"ph": "X", **track(core, name), "ts": start / 1000,
                       "dur": (end - start) / 1000, "name": what, "args": args})
    for core, name, what, time in points:
        events.append({"ph": "i", **track(core, name), "ts": time / 1000, "s": "t", "name": what})
    for number, core, name, time, ends in arrows:
        events.append({"ph": "f" if ends else "s", **track(core, name), "ts": time / 1000,
                       "id": number, "name": "waited", "cat": "waited",
                       **({"bp": "e"} if ends else {})})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()


def perfetto(s):
    """A Trace message of Perfetto's published protobuf definitions."""
    return write_perfetto(slices(s), instants(s))


def write_perfetto(bars, points, arrows=(), title=_title):
    """As write_chrome()."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
    except ImportError:
        raise BadSession("this format needs the Python package perfetto: pip install "
                         "perfetto protobuf") from None
    trace, tracks, processes = pb.Trace(), {}, {}

    def packet():
        p = trace.packet.add()
        p.trusted_packet_sequence_id = 1
        return p

    def track(core, name):
        if core not in processes:
            d = packet().track_descriptor
            d.uuid = number = _number(core, processes)
            d.process.pid, d.process.process_name = number, title(core)
        if (core, name) not in tracks:
            d = packet().track_descriptor
            d.uuid = tracks[core, name] = FIRST_TRACK + len(tracks)
            d.name, d.parent_uuid = name, processes[core]
        return tracks[core, name]

    def event(time, kind, uuid, name=None):
        p = packet()
        p.timestamp, p.track_event.type, p.track_event.track_uuid = time, kind, uuid
        if name is not None:
            p.track_event.name = name
        return p.track_event

    flows = {}
    for number, core, name, time, _ in arrows:
        flows.setdefault((core, name, time), []).append(number)
    for core, name, what, start, end, args in bars:
        uuid = track(core, name)
        begun = event(start, pb.TrackEvent.TYPE_SLICE_BEGIN, uuid, what)
        begun.flow_ids.extend(flows.pop((core, name, start), ()))
        for key, value in args.items():
            a = begun.debug_annotations.add()
            a.name = key
            if isinstance(value, int):
                a.int_value = value
            else:
                a.string_value = value
        event(end, pb.TrackEvent.TYPE_SLICE_END, uuid)
    for core, name, what, time in points:
        event(time, pb.TrackEvent.TYPE_INSTANT, track(core, name), what)
    return trace.SerializeToString()
