"""Makes links from a message of nkisim to its page of the documentation.

NKISIM_DOCS names the documentation: the address of a built site (https://..., file:///...). Without it,
a checkout's own built site counts, else its page in docs/; an installation has the page of mistakes with it.
"""

from __future__ import annotations

import os

#: Rules of the commonest beginners' mistakes: each has a section of this name in docs/mistakes.md.
MISTAKES = ("argument_missing", "tensor_required", "unsupported_call", "values_while_recording", "tensor_partitions",
            "operand_memory", "operand_shape", "slice_out_of_bounds", "kernel_result", "over_capacity")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_ROOT = os.path.dirname(os.path.dirname(_PACKAGE))
_INSTALLED = os.path.join(_PACKAGE, "docs")


def page_of(rule: str, urls_only: bool = False) -> str | None:
    """The address of the page about a rule: the section of a beginner's mistake, else the glossary's table of
    rules; a file of this checkout where no site is known. None where there is neither, or with urls_only no URL."""
    page, anchor = ("mistakes", rule) if rule in MISTAKES else ("glossary", "rules")
    base = os.environ.get("NKISIM_DOCS", "").rstrip("/")
    if base:
        return f"{base}/{page}/#{anchor}" if "://" in base and not base.startswith("file:") else (
            f"{base}/{page}/index.html#{anchor}")
    built = os.path.join(_ROOT, "build", "site", page, "index.html")
    if os.path.exists(built):
        import pathlib

        return f"{pathlib.Path(built).as_uri()}#{anchor}"
    if urls_only:
        return None
    written = [os.path.join(folder, f"{page}.md") for folder in (os.path.join(_ROOT, "docs"), _INSTALLED)]
    return next((f"{path}#{anchor}" for path in written if os.path.exists(path)), None)
