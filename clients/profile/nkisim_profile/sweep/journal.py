"""Keeps the journal of `nkisim sweep`: one JSON line per simulated combination of settings, after a
header line.
"""

import fcntl
import json
import math
import pathlib

from ..session import BadSession

VERSION = 1


HEADER = {"nkisim_sweep": VERSION}


def is_figure(value):
    """True of a finite number."""
    return type(value) in (int, float) and abs(value) < 1 << 63 and math.isfinite(value)


def _simulated(row):
    return isinstance(row.get("summary"), dict)


class Journal:
    """Appends whole lines, so that it is valid whenever the sweep ends; opening it resumes.

    `stamp` gives the text that identifies what a point's result depends on apart from its settings; a
    row with another stamp is out of date; `finished` says of a row whether its point is done.
    Raises BadSession if another sweep holds the file, or if it is no journal with this `header`.
    """

    def __init__(self, path, stamp, header=None, finished=_simulated):
        self.path = pathlib.Path(path)
        self._stamp, self._finished = stamp, finished
        header = header or HEADER
        self.rows = {}
        if self.path.exists() and not self.path.is_file():
            raise BadSession(f"{path}: a regular file is required for a journal")
        self._file = open(self.path, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadSession(f"{path}: another sweep is writing this journal") from None
        lines, end = self._whole_lines()
        if lines and lines[0] != header or not lines and self.path.stat().st_size:
            raise BadSession(f"{path}: not the journal of a sweep; name another with --journal")
        self._file.truncate(end)  # of a last line that was cut short
        if not lines:
            self._write(header)
        for number, row in enumerate(lines[1:], 2):
            if row == header:  # of another journal that was written behind it
                continue
            if not isinstance(row, dict) or not {"point", "stamp"} <= set(row):
                raise BadSession(f"{path}:{number}: no point of a sweep")
            self._keep(row)

    def _keep(self, row):
        if self._finished(row):
            self.rows[json.dumps([row["point"], row["stamp"]], sort_keys=True)] = row

    def _key(self, point):
        return json.dumps([point, self._stamp(point)], sort_keys=True)

    def _whole_lines(self):
        """The lines as JSON without a last one that was cut short, and where they end."""
        self._file.seek(0)
        content = self._file.read()
        end = content.rfind(b"\n") + 1
        try:
            return [json.loads(line) for line in content[:end].splitlines()], end
        except (ValueError, RecursionError):
            raise BadSession(f"{self.path}: not the journal of a sweep") from None

    def _write(self, row):
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()

    def add(self, row):
        row = {**row, "stamp": self._stamp(row["point"])}
        self._write(row)
        self._keep(row)

    def __contains__(self, point):
        return self._key(point) in self.rows

    def __getitem__(self, point):
        return self.rows[self._key(point)]
