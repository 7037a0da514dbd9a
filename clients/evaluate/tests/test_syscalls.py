"""Tests that the sandbox's numbers of system calls are those of the installed Linux headers."""

import pathlib
import re

import pytest

from nkisim_evaluate import syscalls

HEADERS = {"x86_64": ["asm/unistd_64.h", "x86_64-linux-gnu/asm/unistd_64.h"], "aarch64": ["asm-generic/unistd.h"]}


def of_header(machine):
    """{name: number}; calls whose arguments are wider on some machines have numbers of their own kind of name."""
    for name in HEADERS[machine]:
        path = pathlib.Path("/usr/include", name)
        if path.is_file():
            found = re.findall(r"^#define __NR(?:3264)?_(\w+)[ \t]+(\d+)$", path.read_text(), re.MULTILINE)
            return {name: int(number) for name, number in found}
    pytest.skip("Linux's headers are not installed")


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_numbers_are_those_of_the_headers(machine):
    header, (_, numbers, highest) = of_header(machine), syscalls.MACHINES[machine]
    known = numbers.keys() & header.keys()
    assert {name: numbers[name] for name in known} == {name: header[name] for name in known}
    newest = max(n for n in header.values() if n < 1000)
    # A call that the header of an older Linux lacks is newer than all that it has.
    assert all(numbers[name] > newest for name in numbers.keys() - known - {"nfsservctl"})
    assert max(numbers.values()) <= highest and len(set(numbers.values())) == len(numbers)


def test_every_call_that_is_decided_on_has_a_number():
    wanted = {*syscalls.WATCHED, *syscalls.REFUSED, *syscalls.MISSING}
    assert wanted <= syscalls._X86_64.keys()
    assert syscalls._AARCH64.keys() <= syscalls._X86_64.keys()
    assert len(wanted) == sum(map(len, (syscalls.WATCHED, syscalls.REFUSED, syscalls.MISSING)))
