"""Implements regions: named parts of a kernel, by which reports group its time."""

from __future__ import annotations

from ..values.errors import fail
from .recorder import current


class region:
    """Within a kernel: what the block records belongs to the region `name`.

        with nkisim.region("softmax"):
            nisa.activation(...)

    Within another region its name follows a "/": "layer 3/softmax". Instructions carry it into traces and sessions;
    `--explain`, `--accounting-json`, the report and Session.insts.region have it. It changes no value and no time.
    Raises Error outside a kernel, and for a name that is no text, is empty, or has a "/".
    """

    def __init__(self, name: str):
        if not isinstance(name, str) or not name or "/" in name:
            fail("python_value", f"the name of a region is {name!r}; a text without \"/\" is required", "region")
        self._name, self._outer = name, ""

    def __enter__(self) -> None:
        recorder = current()
        self._outer = recorder.region
        recorder.enter_region(f"{self._outer}/{self._name}" if self._outer else self._name)

    def __exit__(self, *problem: object) -> None:
        current().enter_region(self._outer)
