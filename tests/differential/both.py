#!/usr/bin/env python3
"""Runs two test drivers (programs that execute instructions) as one, and compares their answers:
`both.py FIRST [WORD...] -- SECOND [WORD...] -- [OPTION...]`. Every request goes to both. It
answers as FIRST as long as SECOND answers the same bytes. At the first difference it says so and
ends with 1, which run.py reports as a failure of that case. scripts/arm has the two builds'
drivers in it.
"""

import struct
import subprocess
import sys


class Tee:
    """Reads from a stream and keeps what it read."""

    def __init__(self, stream):
        self.stream, self.kept = stream, []

    def read(self, size):
        data = self.stream.read(size)
        if len(data) != size:
            raise EOFError
        self.kept.append(data)
        return data

    def u32(self):
        return struct.unpack("<I", self.read(4))[0]


def request(tee, flags):
    """Reads a whole request."""
    tee.read(tee.u32())
    for _ in range(tee.u32()):
        tee.u32()
        size = tee.u32()
        tee.read(size * (2 if flags else 1))


def answer(tee, flags):
    """Reads a whole answer."""
    status = tee.read(1)[0]
    tee.read(tee.u32())
    if status == 0:
        for _ in range(tee.u32()):
            size = tee.u32()
            tee.read(size * (2 if flags else 1))
        tee.read(tee.u32())


def commands(words):
    """The two commands, each with the options behind the second "--"."""
    first = words.index("--")
    second = words.index("--", first + 1)
    options = words[second + 1:]
    return [words[:first] + options, words[first + 1:second] + options]


def main(words):
    flags = "--undefined" in words
    drivers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for command in commands(words)]
    while True:
        asked = Tee(sys.stdin.buffer)
        try:
            request(asked, flags)
        except EOFError:
            break
        for driver in drivers:
            driver.stdin.write(b"".join(asked.kept))
            driver.stdin.flush()
        said = []
        for driver in drivers:
            tee = Tee(driver.stdout)
            answer(tee, flags)
            said.append(b"".join(tee.kept))
        if said[0] != said[1]:
            at = next((i for i, (a, b) in enumerate(zip(*said)) if a != b), min(map(len, said)))
            sys.exit(f"both: the drivers' answers differ at byte {at} of {len(said[0])} and {len(said[1])}")
        sys.stdout.buffer.write(said[0])
        sys.stdout.buffer.flush()
    for driver in drivers:
        driver.stdin.close()
        driver.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
