"""Implements the language server for kernels: diagnostics, hovers, inlay hints and code actions
(docs/editor.md).
"""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import sys
import tempfile

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from nkisim.tools.install import install
from nkisim.values.links import page_of
from nkisim_work.options import Parser

from . import static, words

DEBOUNCE_SECONDS, MOST_SECONDS = 0.05, 20
SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning,
              "hint": lsp.DiagnosticSeverity.Hint}
EXPLAIN, TRUST = "nkisim.explain", "nkisim/trust"


def version():
    """nkisim's version, "" in a build tree."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("nkisim")
    return ""


class Studies:
    """The warm process: one text at a time, the newest."""

    def __init__(self):
        self._process, self._next, self._take = None, 0, None
        self._lock = asyncio.Lock()

    async def ask(self, path, text, take):
        """Studies a text instead of what is under way; take(answer) receives it."""
        async with self._lock:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "nkisim_editor.warm", stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE, limit=64 << 20, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
                self._listener = asyncio.create_task(self._listen(self._process))
            self._next += 1
            self._take = take
            job = {"id": self._next, "path": path, "text": text, "seconds": MOST_SECONDS}
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            await self._process.stdin.drain()

    async def _listen(self, process):
        while line := await process.stdout.readline():
            answer = json.loads(line)
            if answer.pop("id") == self._next:
                self._take(answer)

    def close(self):
        """Without jobs to come the process ends, and removes what is under way."""
        if self._process is not None and self._process.returncode is None:
            self._process.stdin.close()


class Page:
    """The state of one open text."""

    def __init__(self, text, version):
        self.text, self.version = text, version
        self.problems = {}   # stage -> diagnostics as study says them
        self.kernels = {}    # name -> {"line", "def", "called", "targets": {target: answer}, "target"}
        self.ready = asyncio.Event()

    def on_answer(self, answer):
        """One answer of study; whether anything that is shown has changed."""
        stage, name = answer["stage"], answer.get("kernel")
        if stage == "kernels":
            self.kernels = {n: {**k, "targets": {}, "target": None} for n, k in answer["kernels"].items()}
            self.problems["file"] = answer["problems"]
        elif stage in ("time", "values"):
            self.problems[stage, name] = answer["problems"]
        if stage in ("time", "target") and "target" in answer:
            answer["lines"] = {int(k): v for k, v in answer.get("lines", {}).items()}
            self.kernels[name]["targets"][answer["target"]] = answer
            if stage == "time":
                self.kernels[name]["target"] = answer["target"]
        if stage == "end":
            self.ready.set()
            if answer["why"]:
                self.problems["end"] = [{
                    "line": 1, "rule": "", "severity": "warning", "instruction": "", "message":
                    f"not finished in {MOST_SECONDS} s" if answer["why"] == "timeout" else
                    "the process that ran this file has ended before its time"}]
        return stage in ("kernels", "time", "values") or bool(answer.get("why"))

    def timed(self):
        """(kernel, answer on its own target) of the kernels that ran."""
        for kernel in self.kernels.values():
            if kernel["target"]:
                yield kernel, kernel["targets"][kernel["target"]]

    def all_problems(self):
        """Every diagnostic once; a static one that the run said, too, is left to the run."""
        ran = [p for key, found in self.problems.items() if key != "static" for p in found]
        said = {(p["line"], p["rule"]) for p in ran if p["rule"]}
        static_ = [p for p in self.problems.get("static", ()) if (p["line"], p["rule"]) not in said]
        unique = {(p["line"], p["message"]): p for p in [*static_, *ran]}
        return sorted(unique.values(), key=lambda p: p["line"])


class Server(LanguageServer):
    """Speaks with the editor. `trusted`: texts may be executed."""

    def __init__(self, trusted=False):
        super().__init__("nkisim", version())
        self.trusted = trusted
        self.pages, self.waiting = {}, {}
        self.studies = Studies()

    def change(self, uri):
        """Something was typed: what is under way counts no more, and DEBOUNCE_SECONDS later it is looked at."""
        if uri in self.waiting:
            self.waiting[uri].cancel()
        self.waiting[uri] = asyncio.ensure_future(self._look(uri))

    async def _look(self, uri):
        await asyncio.sleep(DEBOUNCE_SECONDS)
        document = self.workspace.get_text_document(uri)
        text = document.source
        if "nki" not in text:
            if self.pages.pop(uri, None) is not None:  # what was said of its last kernel
                self.publish(uri, Page(text, document.version))
            return
        page = self.pages[uri] = Page(text, document.version)
        executed = self.trusted and static.is_python(text)
        if executed:  # the other process works while this one reads the text
            await self.studies.ask(to_fs_path(uri) or uri, text, lambda answer: self._take(uri, page, answer))
        page.problems["static"], bare = static.problems(text)
        if not executed:
            page.problems["trust"] = [self._hint(line, f"{name} is not executed: this workspace is not trusted")
                                      for name, line, _ in bare[:1] if not self.trusted]
            self.publish(uri, page)
            page.ready.set()

    def _take(self, uri, page, answer):
        """One answer of study about a page, if it is still the newest."""
        if self.pages.get(uri) is not page or not page.on_answer(answer):
            return
        if answer["stage"] == "kernels":
            page.problems["bare"] = [
                self._hint(k["line"], f"{name} has no arguments to run with; a comment such as "
                           f"{comment(k['parameters'])} says them", "nkisim_no_call")
                for name, k in page.kernels.items() if not k["called"]]
            if any(k["called"] for k in page.kernels.values()):
                return  # its time follows at once
        self.publish(uri, page)
        if answer["stage"] == "time":
            self.refresh()

    @staticmethod
    def _hint(line, message, rule=""):
        return {"line": line, "message": message, "rule": rule, "severity": "hint", "instruction": ""}

    def refresh(self):
        capabilities = self.client_capabilities.workspace
        if capabilities and capabilities.inlay_hint and capabilities.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    def publish(self, uri, page):
        lines = page.text.splitlines()
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(
            uri=uri, version=page.version, diagnostics=[diagnostic(p, lines) for p in page.all_problems()]))


def comment(parameters):
    """A comment for a kernel of these parameters, to be changed by whoever knows the shapes."""
    return "# nkisim: " + " ".join(f"{p}=f32[128,512]" for p in parameters)


def _units(text):
    """The length of a text in UTF-16 units, as the protocol counts."""
    return len(text.encode("utf-16-le")) // 2


def place(problem, lines):
    """The range of a diagnostic: its own columns, else its whole line without indentation."""
    number = min(max(problem["line"], 1), max(len(lines), 1)) - 1
    text = lines[number] if lines else ""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if "start" in problem:  # bytes, as Python's syntax trees count
        encoded = text.encode()
        start, end = (len(encoded[:problem[k]].decode(errors="ignore")) for k in ("start", "end"))
    return lsp.Range(lsp.Position(number, _units(text[:start])), lsp.Position(number, _units(text[:end])))


def diagnostic(problem, lines):
    rule = problem["rule"]
    href = page_of(rule, urls_only=True) if rule else None
    return lsp.Diagnostic(range=place(problem, lines), message=problem["message"], source="nkisim",
                          severity=SEVERITIES[problem["severity"]], code=rule or None,
                          code_description=lsp.CodeDescription(href=href) if href else None)


def hover(page, line, column):
    """The Markdown of a place (line from 1), or None."""
    parts, found = [], words.name_at(page.text, line, column)
    if found and found[0] == "nki.isa":
        parts.append(words.instruction(found[1]))
    for kernel, answer in page.timed():
        if line in answer["lines"]:
            parts.append(words.generations(kernel, line))
            parts.append(words.line_details(answer["lines"][line]).replace("\n\n", "; "))
        elif kernel["line"] <= line <= kernel["def"]:
            latencies = ", ".join(f"{t} {a['latency_us']:.3f} us" for t, a in sorted(kernel["targets"].items())
                                  if a.get("latency_us"))
            parts.append(f"simulated: {latencies}\n\n{answer['trust']}")
    said = [p for p in parts if p]
    return "\n\n".join(said) if said else None


def hints(page, first, last):
    """Inlay hints of the lines first..last (from 0)."""
    lines, found = page.text.splitlines(), []
    for _, answer in page.timed():
        for line, what in answer["lines"].items():
            if first <= line - 1 <= last and line <= len(lines):
                found.append(lsp.InlayHint(
                    position=lsp.Position(line - 1, _units(lines[line - 1])), padding_left=True,
                    label=words.line_hint(what, answer["latency_us"]),
                    tooltip=lsp.MarkupContent(lsp.MarkupKind.Markdown, words.line_details(what))))
    return found


def actions(page, uri, diagnostics):
    """Explain a rule; write a comment where a kernel has no call."""
    found = []
    for d in diagnostics:
        if d.source == "nkisim" and d.code == "nkisim_no_call":
            found += [lsp.CodeAction(
                title=f"nkisim: say {name}'s arguments in a comment", kind=lsp.CodeActionKind.QuickFix, diagnostics=[d],
                edit=lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(
                    lsp.Range(lsp.Position(k["line"] - 1, 0), lsp.Position(k["line"] - 1, 0)),
                    comment(k["parameters"]) + "\n")]}))
                for name, k in page.kernels.items() if k["line"] - 1 == d.range.start.line]
        elif d.source == "nkisim" and d.code:
            found.append(lsp.CodeAction(
                title=f"nkisim: explain {d.code}", kind=lsp.CodeActionKind.QuickFix, diagnostics=[d],
                command=lsp.Command(title=f"Explain {d.code}", command=EXPLAIN, arguments=[d.code])))
    return found


def _show(server, name, said):
    """Opens an explanation next to the text where the editor can; else a message has it."""
    window = server.client_capabilities.window
    if window and window.show_document and window.show_document.support:
        path = os.path.join(tempfile.mkdtemp(prefix="nkisim-explain-"), f"{name}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(said)
        server.window_show_document(lsp.ShowDocumentParams(uri=from_fs_path(path), take_focus=False))
    else:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, said))


def _requests(server):
    """The requests: hovers, hints, actions."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def on_hover(params: lsp.HoverParams):
        page = server.pages.get(params.text_document.uri)
        said = page and hover(page, params.position.line + 1, params.position.character)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, said)) if said else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def on_hints(params: lsp.InlayHintParams):
        page = server.pages.get(params.text_document.uri)
        return hints(page, params.range.start.line, params.range.end.line) if page else []

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
    def on_actions(params: lsp.CodeActionParams):
        uri = params.text_document.uri
        page = server.pages.get(uri)
        return actions(page, uri, params.context.diagnostics) if page else []

    @server.command(EXPLAIN)
    def on_explain(name: str):
        said = words.explanation(name)
        if said is not None:
            _show(server, name, said)
        return said


def make(trusted=False):
    """The server, with its features."""
    install()
    server = Server(trusted)
    _requests(server)

    @server.feature(lsp.INITIALIZE)
    def on_start(params: lsp.InitializeParams):
        given = params.initialization_options
        server.trusted = server.trusted or isinstance(given, dict) and given.get("trusted") is True

    @server.feature(TRUST)
    def on_trust(params):
        server.trusted = getattr(params, "trusted", None) is True
        for uri in list(server.workspace.text_documents):
            server.change(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def on_open(params: lsp.DidOpenTextDocumentParams):
        server.change(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def on_change(params: lsp.DidChangeTextDocumentParams):
        server.change(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def on_close(params: lsp.DidCloseTextDocumentParams):
        uri = params.text_document.uri
        if uri in server.waiting:
            server.waiting.pop(uri).cancel()
        server.pages.pop(uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    @server.feature(lsp.SHUTDOWN)
    def on_shutdown(*_):
        server.studies.close()

    return server


def main(given):
    """Runs `nkisim lsp` on standard input and output."""
    parser = Parser("lsp", "[options]", "A language server for NKI kernels: errors, costs and times while one types.",
                    "nkisim lsp      # on standard input and output (docs/editor.md)",
                    "--trust is for editors that do not say whether a workspace is trusted.")
    parser.option("trust")
    server = make(parser.parse_args(given).trust)
    try:
        server.start_io()
    finally:
        server.studies.close()
    return 0
