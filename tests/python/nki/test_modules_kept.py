"""Tests that nkisim.tools.install keeps nkisim's own modules, and none of another package of the
same name.
"""

import pytest

from running import python

pytestmark = pytest.mark.process

OURS = """
import sys, nkisim
import nki.isa
before = sys.modules["nki.isa"], sys.modules["nki"]
assert nkisim.install() is True and nkisim.install() is False
assert (sys.modules["nki.isa"], sys.modules["nki"]) == before
import nki.isa as again
assert again is before[0]
"""
OTHERS = """
import sys, types
other = {"nki": "/elsewhere/nki/__init__.py", "nki.isa": None, "neuronxcc": "/elsewhere/neuronxcc/__init__.py"}
for name, file in other.items():
    sys.modules[name] = types.ModuleType(name)
    if file:
        sys.modules[name].__file__ = file
fakes = dict(sys.modules)
import nkisim
nkisim.install()
assert not any(sys.modules.get(name) is fakes[name] for name in other)
import nki.isa
assert nki.isa.dma_copy and "elsewhere" not in nki.__file__
"""


@pytest.mark.parametrize("script", [OURS, OTHERS], ids=["ours", "others"])
def test_modules_after_install(script, tmp_path):
    python("-c", script, cwd=tmp_path)
