#!/usr/bin/env python3
"""Draws docs/images/editor.png: a kernel in an editor with the messages of nkisim's language
server.

    PYTHONPATH=build/release/python:python build/venv/bin/python docs/images/editor.py [FILE.png]
"""

import asyncio
import html
import os
import pathlib
import sys
import tempfile

from lsprotocol import types as lsp
from playwright.sync_api import sync_playwright
from pygls.lsp.client import LanguageClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = '''# nkisim: x=f32[128,2048]:normal
@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    negative_max = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=negative_max,
                           reduce_op=nl.add, reduce_res=total)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nl.store(out, tile)
    return out
'''
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n"
BAD = GOOD.replace("op=nl.maximum, data=tile", "op=nl.maximum, data=x")
STYLE = """body{background:#1e1e1e;color:#d4d4d4;font:14px/1.55 'DejaVu Sans Mono',monospace;padding:14px;width:1120px}
body{margin:0}.n{color:#858585;display:inline-block;width:34px}
.hint{color:#9a9a9a;background:#2b2b2b;border-radius:3px;font-size:12px;padding:1px 5px;margin-left:10px}
.error{text-decoration:underline wavy #f14c4c;text-underline-offset:3px}
.said{color:#f14c4c;margin-left:34px}.code{color:#9cdcfe}pre{margin:0 0 18px;white-space:pre-wrap}
table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #555;padding:2px 9px;text-align:left}
.hover{background:#252526;border:1px solid #454545;padding:8px 14px;display:inline-block}"""


async def answers(text, wait_for):
    """(diagnostics, {line: hint}, hover) of a text; the hover once it has `wait_for`."""
    client, received = LanguageClient("picture", "1"), asyncio.Queue()
    client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda message: received.put_nowait(message))
    await client.start_io(sys.executable, "-m", "nkisim_editor", "lsp", "--trust")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    uri = (pathlib.Path(tempfile.gettempdir()) / "softmax.py").as_uri()
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, text)))
    problems = (await received.get()).diagnostics
    here, line = lsp.TextDocumentIdentifier(uri), text.splitlines().index(
        next(t for t in text.splitlines() if "nisa.activation_reduce" in t))
    said = None
    for _ in range(100 if wait_for else 1):
        found = await client.text_document_hover_async(lsp.HoverParams(here, lsp.Position(line, 12)))
        said = found.contents.value if found else ""
        if not wait_for or said.count(" us |") >= wait_for:
            break
        await asyncio.sleep(0.1)
    hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(
        here, lsp.Range(lsp.Position(0, 0), lsp.Position(100, 0))))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return problems, {h.position.line: h.label for h in hints}, said


def page(text, problems, hints):
    out = []
    for number, line in enumerate(text.splitlines()[HEAD.count("\n"):], HEAD.count("\n")):
        mine = [d for d in problems if d.range.start.line == number]
        body = html.escape(line)
        if mine:
            first = mine[0].range.start.character
            body = html.escape(line[:first]) + f'<span class="error">{html.escape(line[first:])}</span>'
        hint = f'<span class="hint">{html.escape(hints[number])}</span>' if number in hints else ""
        out.append(f'<span class="n">{number + 1}</span>{body}{hint}')
        out += [f'<span class="said">{html.escape(d.message)}  <span class="code">nkisim({d.code})</span></span>'
                for d in mine]
    return "<pre>" + "\n".join(out) + "</pre>"


def table(markdown):
    """A hover's Markdown: its paragraphs and its table."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in markdown.splitlines() if line.startswith("|")]
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
                    for row in rows if set("".join(row)) - set("-"))
    said = [html.escape(p).replace("**", "") for p in markdown.split("\n\n") if p and not p.startswith("|")]
    return f'<div class="hover">{"<br>".join(said[:-1])}<table>{cells}</table>{said[-1]}</div>'


def main(out):
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    bad, good = (asyncio.run(answers(HEAD + t, n)) for t, n in ((BAD, 0), (GOOD, 6)))
    text = f"<style>{STYLE}</style>{page(HEAD + BAD, *bad[:2])}{page(HEAD + GOOD, *good[:2])}{table(good[2])}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1150, "height": 700})
        tab.set_content(text)
        tab.screenshot(path=out, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images" / "editor.png")
