"""Tests the hints that `nkisim report` derives from the critical path of a run, and how numbers are
packed for the page.
"""

import base64
import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from nkisim_profile.report import pack
from nkisim_profile.session import CAUSES
from nkisim_profile.tables import run

OTHER = next(c for c in CAUSES if c not in run.DMA_CAUSES)


def path(*steps):
    """A path of (core, cause, fs), one after the other."""
    core, cause, fs = zip(*steps)
    to = np.cumsum(fs)
    return SimpleNamespace(core=np.array(core), cause=np.array([CAUSES.index(c) for c in cause]),
                           to=to, **{"from": to - fs})


@pytest.mark.parametrize("cores, steps, share", [
    (1, [(0, "wait_dma", 10), (0, OTHER, 50), (0, "hbm", 20)], 30 / 200),
    (1, [(0, OTHER, 50)], 0),
    (3, [(0, "hbm", 10), (1, "dma_latency", 15), (1, "dma_engines", 5), (2, "wait_dma", 5)], 20 / 200)])
def test_the_share_that_waits_for_dma_is_that_of_the_core_that_waits_most(cores, steps, share):
    assert run._dma_share(SimpleNamespace(path=path(*steps), cores=cores, end_fs=200)) == pytest.approx(share)


class Transfers:
    def __init__(self, *descriptor_bytes):
        self.descriptor_bytes = np.array(descriptor_bytes)

    def __len__(self):
        return len(self.descriptor_bytes)


@pytest.mark.parametrize("average, transposes, waits, descriptors, partial, said", [
    (32768, 10, 30, (512, 4096), False, []),  # each just good enough
    (1000, 11, 40, (256, 512, 100), True, [
        ("partial", "the run was interrupted: these tables end early"),
        ("transpose", "over 10 % of the PE array's work is transposes"),
        ("dma", "the average DMA moves 1000 bytes; 32 KiB or more use the bandwidth"),
        ("dma", "2 of 3 DMAs have elements under 512 bytes"),
        ("dma", "20 % of the critical path waits for DMA")])])
def test_what_is_reported_of_a_run(average, transposes, waits, descriptors, partial, said):
    totals = {"transpose_flops": transposes, "hardware_flops": 100, "dma_transfer_average_bytes": average}
    found = run.warnings(SimpleNamespace(
        totals=lambda: totals, facts={"partial": partial}, transfers=Transfers(*descriptors), cores=1, end_fs=200,
        path=path((0, "hbm", waits), (0, OTHER, 60))))
    assert list(zip(found["category"], found["message"])) == said


@pytest.mark.parametrize("name", ["", "k", "kernel 1", "kernels"])
def test_columns_lie_where_a_page_can_use_them_in_place(name):
    block = pack.Pack()
    columns = {"u1": [1, 2, 3], "i4": [4, -5, 6], "u2": [7], "f4": [0.5, 2.0]}
    places = {kind: block.add(values, kind) for kind, values in columns.items()}
    text = gzip.decompress(base64.b64decode(block.finish({"name": name})))
    length = int.from_bytes(text[:8], "little")
    assert json.loads(text[8:8 + length]) == {"name": name}
    for kind, values in columns.items():
        at = 8 + length + places[kind]["at"]
        assert at % 8 == 0 and np.frombuffer(text, pack.TYPES[kind], len(values), at).tolist() == values
    assert len(text) % 8 == 0
