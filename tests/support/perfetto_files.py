"""Reads Perfetto files with the published protobuf definitions (PyPI: perfetto)."""

import collections
import zlib

import pytest

trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def packets(content):
    """The packets of a file, those that it has compressed included."""
    trace = trace_pb2.Trace()
    trace.ParseFromString(content)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def slices(path):
    names, texts, tracks, open_slices, done = {}, {}, {}, {}, collections.defaultdict(list)
    for packet in packets(path.read_bytes()):
        for entry in packet.interned_data.debug_annotation_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            texts[entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_slices, "slices of a row overlap"
            args = {}
            for a in event.debug_annotations:
                text = texts[a.string_value_iid] if a.string_value_iid else a.string_value
                args[names[a.name_iid] if a.name_iid else a.name] = text or a.int_value
            open_slices[event.track_uuid] = (packet.timestamp, event.name, args)
        elif event.type == event.TYPE_SLICE_END:
            start, name, args = open_slices.pop(event.track_uuid)
            done[tracks[event.track_uuid].name].append((start, packet.timestamp, name, args))
    assert not open_slices
    return done, {t.process.process_name for t in tracks.values()}
