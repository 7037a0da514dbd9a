"""Tests that docs/bugs.md and messages.txt are true: each of their kernels gives exactly the
message printed below it.

    python tests/python/nki/test_messages.py    # writes the messages anew
"""

import contextlib
import io
import pathlib
import re
import sys
import tempfile
import traceback

import numpy as np
import pytest

import nkisim
from nkisim.tools import kernel_cli

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

FILES = (pathlib.Path(__file__).parents[3] / "docs" / "bugs.md", pathlib.Path(__file__).with_name("messages.txt"))
SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<before>.*?)```python\n(?P<code>.*?)```\n\n"
                     r"```text\n(?P<message>.*?)```", re.M | re.S)
BUGS = [bug for file in FILES for bug in SECTION.finditer(file.read_text())]


def comparison(file):
    """The last line of nkisim kernel --expect, for kernels that are wrong but not illegal."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = kernel_cli.main([f"{file}:kernel", "--arg", "x=f32[128,512]:arange", "--expect",
                                "expected"])
    assert code == 1
    return text.getvalue().splitlines()[-1] + "\n"


def message_of(code, folder):
    """The output of running `kernel` of `code`."""
    file = pathlib.Path(folder) / "kernel.py"
    file.write_text(code)
    if "def expected" in code:
        return comparison(file)
    scope = {"nki": nki, "nisa": nisa, "nl": nl, "__name__": "kernel"}
    exec(compile(code, str(file), "exec"), scope)
    x = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    try:
        nkisim.run(scope["kernel"], x, target="trn2")
    except Exception as problem:
        text = "".join(traceback.format_exception_only(problem))
    else:
        text = "(no error)\n"
    text = re.sub(r"^nkisim\.\w+: ", "error: ", text)
    text = re.sub(r"^  help: .*\bmistakes\b.*#", "  help: docs/mistakes.md#", text, flags=re.M)  # wherever they are
    return text.replace(str(file), "kernel.py")


def test_the_document_has_bugs():
    assert len(BUGS) >= 15


@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b["title"].replace("`", ""))
def test_message(bug, tmp_path):
    import linecache

    linecache.clearcache()
    assert message_of(bug["code"], tmp_path) == bug["message"]


def write():
    """Puts today's messages into the files."""
    def section(bug):
        with tempfile.TemporaryDirectory() as folder:
            message = message_of(bug["code"], folder)
        return (f"## {bug['title']}\n{bug['before']}```python\n{bug['code']}```\n\n"
                f"```text\n{message}```")

    for file in FILES:
        file.write_text(SECTION.sub(section, file.read_text()))


if __name__ == "__main__":
    sys.exit(write())
