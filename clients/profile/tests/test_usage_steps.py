"""Tests the curves of DMA bytes in flight and bytes so far, for transfers that are given here."""

from types import SimpleNamespace

import numpy as np
import pytest

from nkisim_profile.session import FS_PER_NS, SPACES
from nkisim_profile.tables import dma

HBM, ELSEWHERE = SPACES.index("HBM"), SPACES.index("SB")


def columns(**found):
    return SimpleNamespace(**{k: np.array(v) for k, v in found.items()})


class Rows(SimpleNamespace):
    def __len__(self):
        return len(self.core)


def session():
    """Core 0 moves 100 bytes from 0 to 10 ns and 50, none of HBM, from 5 to 15 ns. Of core 1: 30 from 20 to 30."""
    lanes = Rows(**vars(columns(core=[0, 0, 1], sequence=[0, 1, 0], start=[0, 5 * FS_PER_NS, 20 * FS_PER_NS],
                                end=[10 * FS_PER_NS, 15 * FS_PER_NS, 30 * FS_PER_NS], bytes=[100, 50, 30])))
    transfers = columns(core=[0, 0, 1], sequence=[0, 1, 0], src=[HBM, ELSEWHERE, ELSEWHERE],
                        dst=[ELSEWHERE, ELSEWHERE, HBM], trigger_start=[0, 2 * FS_PER_NS, 19 * FS_PER_NS],
                        visible=[11 * FS_PER_NS, 16 * FS_PER_NS, 31 * FS_PER_NS])
    return SimpleNamespace(lanes=lanes, transfers=transfers, cores=2)


def lists(table):
    return {name: values.tolist() for name, values in table.items()}


def test_throughput_rises_and_falls_again():
    assert lists(dma.dma_usage(session())) == {
        "timestamp": [0, 5, 10, 15, 20, 30], "pcore_idx": [0, 0, 0, 0, 1, 1],
        "current_throughput": pytest.approx([10e9, 15e9, 5e9, 0, 3e9, 0]),  # bytes per second
        "total_transfer_bytes": [0, 0, 100, 150, 0, 30]}


def test_hbm_has_the_transfers_that_touch_it():
    assert lists(dma.hbm_usage(session())) == {
        "timestamp": [0, 10, 20, 30], "pcore_idx": [0, 0, 1, 1],
        "current_throughput": pytest.approx([10e9, 0, 3e9, 0]), "total_transfer_bytes": [0, 100, 0, 30]}


def test_transfers_are_pending_until_they_are_visible():
    assert lists(dma.pending_dma(session())) == {
        "timestamp": [0, 2, 11, 16, 19, 31], "pcore_idx": [0, 0, 0, 0, 1, 1], "value": [1, 2, 1, 0, 1, 0]}
