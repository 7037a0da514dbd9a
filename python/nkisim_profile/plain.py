"""Text for a terminal, of which files and candidates say a part."""

import io
import re

# Control characters but line feed and tab (a carriage return begins tqdm's lines), and the marks
# that turn the direction of a text.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
                     r"\u2066-\u2069]|(?!\A)\r")


class Plain(io.TextIOBase):
    """A stream without the control characters that a name or a message may hold."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        return self._stream.write(CONTROL.sub(lambda c: f"\\u{ord(c[0]):04x}", text))

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def flush(self):
        self._stream.flush()

    def isatty(self):
        return self._stream.isatty()

    def fileno(self):
        return self._stream.fileno()
