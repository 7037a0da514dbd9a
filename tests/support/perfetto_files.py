"""Reads Perfetto files with the published protobuf definitions (PyPI: perfetto)."""

import collections

import pytest

trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def slices(path):
    trace = trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    names, tracks, open_slices, done = {}, {}, {}, collections.defaultdict(list)
    for packet in trace.packet:
        for entry in packet.interned_data.debug_annotation_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_slices, "slices of a row overlap"
            args = {}
            for a in event.debug_annotations:
                args[names[a.name_iid] if a.name_iid else a.name] = a.string_value or a.int_value
            open_slices[event.track_uuid] = (packet.timestamp, event.name, args)
        elif event.type == event.TYPE_SLICE_END:
            start, name, args = open_slices.pop(event.track_uuid)
            done[tracks[event.track_uuid].name].append((start, packet.timestamp, name, args))
    assert not open_slices
    return done, {t.process.process_name for t in tracks.values()}
