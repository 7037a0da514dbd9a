"""Packs the HTML report's numbers and JSON into one compressed block, laid out for JavaScript to
use in place.
"""

import base64
import gzip
import json

import numpy as np

ALIGN = 8
TYPES = {"i4": np.int32, "u2": np.uint16, "u1": np.uint8, "f4": np.float32}


def compressed(data, level=3):
    """The bytes as the page's `unpack()` reads them. Higher levels take three times as long for a tenth of a page."""
    return base64.b64encode(gzip.compress(data, level, mtime=0)).decode()


class Pack:
    """Collects columns; each becomes a reference that the page's `column()` resolves."""

    def __init__(self):
        self._chunks, self._size = [], 0

    def add(self, values, kind="i4", delta=False):
        """A reference to the values as `kind`; sorted ones compress better as differences."""
        values = np.asarray(values)
        if delta:
            values = np.diff(values, prepend=values.dtype.type(0))
        data = np.ascontiguousarray(values, TYPES[kind]).tobytes()
        reference = {"type": kind, "at": self._size, "n": len(values), "delta": delta}
        padding = -len(data) % ALIGN
        self._chunks += [data, bytes(padding)]
        self._size += len(data) + padding
        return reference

    def finish(self, facts):
        """Length of the JSON (8 bytes), JSON, columns; compressed, as base64 text."""
        head = json.dumps(facts).encode()
        head += b" " * (-len(head) % ALIGN)
        block = b"".join([len(head).to_bytes(8, "little"), head, *self._chunks])
        return compressed(block)
