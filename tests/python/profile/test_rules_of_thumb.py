"""The profiler's rules of thumb, on paths that are written out here."""

from types import SimpleNamespace

import numpy as np
import pytest

from nkisim_profile.session import CAUSES
from nkisim_profile.tables import run

OTHER = next(c for c in CAUSES if c not in run.DMA_CAUSES)


def path(*steps):
    """Of (core, cause, fs), one after the other."""
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
