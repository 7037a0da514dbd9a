"""The journal of a sweep: one JSON line per finished point, after a line that says what it is."""

import fcntl
import json
import pathlib

from ..session import BadSession

VERSION = 1


HEADER = {"nkisim_sweep": VERSION}


def _simulated(row):
    return "summary" in row


class Journal:
    """Appends whole lines, so that it is valid whenever the sweep ends; opening it resumes.

    `stamp` gives the text that identifies what a point's result depends on besides its settings; a
    row with another stamp is out of date; `finished` says of a row whether its point is done.
    Raises BadSession if another sweep holds the file, or if it is no journal with this `header`.
    """

    def __init__(self, path, stamp, header=None, finished=_simulated):
        self.path = pathlib.Path(path)
        self._stamp, self._finished = stamp, finished
        header = header or HEADER
        self.rows = {}
        self._file = open(self.path, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadSession(f"{path}: another sweep is writing this journal") from None
        lines = self._whole_lines()
        if not lines:
            self._write(header)
        elif lines[0] != header:
            raise BadSession(f"{path}: not the journal of a sweep; name another with --journal")
        for row in lines[1:]:
            self._keep(row)

    def _keep(self, row):
        if self._finished(row):
            self.rows[json.dumps([row["point"], row["stamp"]], sort_keys=True)] = row

    def _key(self, point):
        return json.dumps([point, self._stamp(point)], sort_keys=True)

    def _whole_lines(self):
        """The lines as JSON; a last line that was cut short is removed from the file."""
        self._file.seek(0)
        content = self._file.read()
        end = content.rfind(b"\n") + 1
        self._file.truncate(end)
        try:
            return [json.loads(line) for line in content[:end].splitlines()]
        except ValueError:
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
