"""Tests that a recorded, compiled and running kernel takes little host memory for each instruction."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

MEASURE = Path(__file__).resolve().parents[3] / "bench" / "memory.py"

#: Bytes an instruction at the peak of each stage: some 1.4 times what the kernels took when this was written.
MOST = {"operators": (500, 1000, 1000), "tiles": (450, 850, 750), "small": (320, 450, 950)}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("kernel", MOST)
def test_memory_grows_by_a_bounded_number_of_bytes(kernel):
    found = subprocess.run([sys.executable, MEASURE, "--kernel", kernel, "--instructions", "16000"],
                           check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    for (stage, size, _), most in zip(json.loads(found), MOST[kernel]):
        assert size <= most, (stage, size)
