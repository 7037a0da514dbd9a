"""Prints text to a terminal without the control characters that untrusted names may contain."""

import re

from nkisim_work.piped import Piped

# Control characters but line feed and tab (a carriage return begins tqdm's lines), and the marks
# that change the direction of a text.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
                     r"\u2066-\u2069]|(?!\A)\r")


class Plain(Piped):
    """A stream without the control characters that a name or a message may hold."""

    def write(self, text):
        return super().write(CONTROL.sub(lambda c: f"\\u{ord(c[0]):04x}", text))
