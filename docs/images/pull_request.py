#!/usr/bin/env python3
"""Draws docs/images/pull_request.png: the summary that action.yml writes for a pull request which makes a kernel 5 %
slower. Its shell step runs here as on a runner; the page is drawn with mermaid, as GitHub does.

    PYTHONPATH=build/release/python:python:tests/support:tests/python/repo \\
        build/venv/bin/python docs/images/pull_request.py MERMAID.JS [FILE.png]

MERMAID.JS: dist/mermaid.min.js of the npm package mermaid.
"""

import html
import os
import pathlib
import re
import sys
import tempfile

from playwright.sync_api import sync_playwright
from running import cli, run
from test_action import Runner

KERNEL = '''import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = nl.ds(i * 128, 128)
        tile = nl.load(x[rows])
        negative_max = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=negative_max,
                               reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nl.store(out[rows], tile)
    return out
'''
SLOWER = KERNEL.replace("        nisa.reciprocal", """        # Rounded once more, as the reference does.
        nisa.tensor_copy(dst=tile, src=tile, engine=nisa.engine.vector)
        nisa.reciprocal""")
STYLE = """body{font:14px/1.5 -apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:#1f2328;background:#fff;margin:0;
padding:20px 28px;width:900px}table{border-collapse:collapse;margin:0 0 16px}td,th{border:1px solid #d1d9e0;
padding:5px 12px;text-align:left}th{font-weight:600}tr:nth-child(2n){background:#f6f8fa}
code{background:#818b981f;border-radius:6px;padding:2px 5px;font:12px 'DejaVu Sans Mono',monospace}
h3{font-size:18px;margin:18px 0 10px}td[style*=right]{text-align:right}"""
CODE, TO_CODE = re.compile("`(.*?)`"), r"<code>\1</code>"


def summary(folder):
    """The summary of the action's step for a pull request onto HEAD, which has the kernel as it was."""
    record = ("kernel", "softmax.py:softmax", "--arg", "x=f32[1024,2048]:normal", "--target", "trn2", "--save",
              "softmax.jsonl")
    (folder / "softmax.py").write_text(KERNEL)
    cli(*record, cwd=folder)
    run("git", "init", "-q", folder)
    run("git", "-C", folder, "add", ".")
    run("git", "-C", folder, "-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "-qm", "softmax")
    (folder / "softmax.py").write_text(SLOWER)
    cli(*record, cwd=folder)
    runner = Runner(folder, traces="softmax.jsonl", base="HEAD")
    for step in ("Prepare the report", "Simulate traces"):
        done = runner.run(step)
        assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "STEP_SUMMARY").read_text()


def table(lines):
    rows = []
    for n, line in enumerate(lines):
        cells = [html.escape(c.strip()) for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        kind = "td" if n else "th"
        if n != 1:  # which says how columns are aligned
            rows.append("".join(f"<{kind}>{CODE.sub(TO_CODE, c)}</{kind}>" for c in cells))
    return f"<table><tr>{'</tr><tr>'.join(rows)}</tr></table>"


def page(text, mermaid):
    """A page of the Markdown that a summary has: headings, tables, charts, paragraphs."""
    body = []
    for block in re.split(r"\n{2,}|(?<=```)\n", text.strip()):
        if block.startswith("```mermaid"):
            body.append(f'<pre class="mermaid">{html.escape(block[10:-3])}</pre>')
        elif block.startswith("|"):
            body.append(table(block.splitlines()))
        else:
            body.append(f"<h3>{block[4:]}</h3>" if block.startswith("### ") else f"<p>{html.escape(block)}</p>")
    return (f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{''.join(body)}<script>{mermaid}</script>"
            "<script>mermaid.initialize({startOnLoad: false});"
            "mermaid.run().then(() => { document.title = 'drawn'; });</script>")


def main():
    target = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).with_suffix(".png"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        text = summary(pathlib.Path(folder))
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM"))
        view = browser.new_page(viewport={"width": 960, "height": 600}, device_scale_factor=1)
        view.set_content(page(text, pathlib.Path(sys.argv[1]).read_text()))
        view.wait_for_function("document.title === 'drawn'")
        view.screenshot(path=target, full_page=True)
        browser.close()
    print(text)


if __name__ == "__main__":
    main()
