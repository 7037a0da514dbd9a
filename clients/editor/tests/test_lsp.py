"""Tests `nkisim lsp`, the language server for kernels, by the messages that an editor sends while a
kernel is typed.
"""

import ast
import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pygls", reason="pygls is not installed (scripts/setup --dev)")

from lsprotocol import types as lsp  # noqa: E402
from pygls.lsp.client import LanguageClient  # noqa: E402

import nkisim  # noqa: E402
from nkisim_editor import static  # noqa: E402

nkisim.install()
pytestmark = pytest.mark.process

KERNEL = '''import nki
import nki.isa as nisa
import nki.language as nl


# nkisim: x=f32[128,512]:normal
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nl.store(out, tile)
    return out
'''
ACTIVATION, DEF = 10, 7  # lines from 0


class Editor:
    """A client with one open text; `published` has what was published, in order."""

    def __init__(self, folder):
        self.client, self.published, self.shown = LanguageClient("test", "1"), asyncio.Queue(), []
        self.path, self.temporary = folder / "k.py", folder / "temporary"
        self.temporary.mkdir()
        self.uri, self.version = self.path.as_uri(), 0

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params):
            self.published.put_nowait(params)

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def shown(params):
            self.shown.append(params.message)

    async def start(self, text, *words, trusted=True):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                       "TMPDIR": str(self.temporary)}
        await self.client.start_io(sys.executable, "-m", "nkisim_editor", "lsp", *words, env=environment)
        self.client_says = await self.client.initialize_async(lsp.InitializeParams(
            capabilities=lsp.ClientCapabilities(), initialization_options={"trusted": trusted}))
        self.client.initialized(lsp.InitializedParams())
        self.version = 1
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(
            lsp.TextDocumentItem(self.uri, "python", 1, text)))

    def type(self, text):
        self.version += 1
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(self.version, self.uri),
            [lsp.TextDocumentContentChangeWholeDocument(text)]))

    async def problems(self):
        """The next diagnostics of the text as it is now."""
        while True:
            params = await asyncio.wait_for(self.published.get(), 60)
            if params.version == self.version:
                return list(params.diagnostics)

    async def until(self, wanted):
        """Diagnostics, as soon as `wanted` holds of them."""
        while not wanted(found := await self.problems()):
            pass
        return found

    async def hints(self):
        found = await self.client.text_document_inlay_hint_async(lsp.InlayHintParams(
            lsp.TextDocumentIdentifier(self.uri), lsp.Range(lsp.Position(0, 0), lsp.Position(1000, 0))))
        return {h.position.line: h.label for h in found}

    async def hover(self, line, column):
        found = await self.client.text_document_hover_async(lsp.HoverParams(
            lsp.TextDocumentIdentifier(self.uri), lsp.Position(line, column)))
        return found.contents.value if found else None

    async def actions(self, diagnostics):
        return await self.client.text_document_code_action_async(lsp.CodeActionParams(
            lsp.TextDocumentIdentifier(self.uri), lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)),
            lsp.CodeActionContext(diagnostics)))

    async def stop(self):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()
        for _ in range(100):  # the process that studies texts ends after the server
            if not (left := list(self.temporary.iterdir())):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"left behind: {left}")


def test_a_text_without_a_kernel_has_no_problems_left(tmp_path):
    async def steps(editor):
        await editor.until(lambda found: not found)
        editor.type(KERNEL.replace("return out", "return out ("))
        await editor.until(lambda found: found)
        editor.type("x = [0]\n")
        assert await editor.problems() == []
    session(tmp_path, KERNEL, steps)


def session(folder, text, steps, *words, **options):
    """Runs the coroutine steps(editor) with a server that has opened `text`."""
    async def run():
        editor = Editor(folder)
        await editor.start(text, *words, **options)
        try:
            await steps(editor)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await editor.stop()
    asyncio.run(run())


def simulated(text, target):
    """The latency of the text's kernel by nkisim.run."""
    space = {}
    exec(compile(text, "k.py", "exec"), space)
    return nkisim.run(space["kernel"], np.zeros((128, 512), np.float32), target=target).latency_us


def test_hints_hover_and_targets(tmp_path):
    latencies = {t: simulated(KERNEL, t) for t in ("trn1", "trn2", "trn3")}

    async def steps(editor):
        assert await editor.problems() == []
        hints = await editor.hints()
        assert set(hints) == {9, ACTIVATION, 11} and not any("times" in h for h in hints.values())
        assert all(" ns" in h or " us" in h for h in hints.values())
        for _ in range(100):
            said = await editor.hover(DEF, 6)
            if "trn3" in said and "trn1" in said:
                break
            await asyncio.sleep(0.1)
        for target, latency in latencies.items():  # of zeros and of random numbers: the same time
            assert f"{target} {latency:.3f} us" in said
        said = await editor.hover(ACTIVATION, 12)
        assert "nki.isa.activation" in said and "cost:" in said and "engines: scalar" in said
        rows = [line for line in said.splitlines() if line.startswith("| trn")]
        assert [row.split("|")[1].strip() for row in rows] == ["trn1", "trn2", "trn3"]
        assert all(" ns |" in row or " us |" in row for row in rows)
    session(tmp_path, KERNEL, steps)


def test_an_error_has_its_rule_its_line_and_an_explanation(tmp_path):
    async def steps(editor):
        await editor.problems()
        editor.type(KERNEL.replace("data=tile", "data=x"))
        [found] = await editor.problems()
        assert (found.code, found.range.start.line, found.severity) == (
            "operand_memory", ACTIVATION, lsp.DiagnosticSeverity.Error)
        assert "data is in HBM; SBUF or PSUM is required" in found.message
        assert found.range.start.character == 4
        [action] = await editor.actions([found])
        assert action.title == "nkisim: explain operand_memory"
        command = ast.literal_eval(action.command)  # lsprotocol's client takes any action for a command
        assert (command["command"], command["arguments"]) == ("nkisim.explain", ["operand_memory"])
        said = await editor.client.workspace_execute_command_async(lsp.ExecuteCommandParams(
            command["command"], command["arguments"]))
        assert "Load a tensor of HBM into a tile first" in said and editor.shown == [said]
        assert await editor.client.workspace_execute_command_async(lsp.ExecuteCommandParams(
            command["command"], ["no_such_rule"])) is None
        assert await editor.hints() == {}
        editor.type(KERNEL)
        assert await editor.problems() == []
    session(tmp_path, KERNEL, steps)


@pytest.mark.parametrize("before, after, line, rule, says", [
    ("nisa.activation(", "nisa.activaton(", ACTIVATION, "unsupported_call", "activation"),
    ("    return out", "    return tile", 9, "kernel_result", "a tensor in HBM is required"),
    ("    nl.store(out, tile)\n", "", 8, None, "no instruction wrote"),
    ("x=f32[128,512]", "x=f31[128,512]", 5, "option_value", "'f31' is not a dtype"),
    ("x=f32[128,512]", "y=f32[128,512]", 5, "option_value", "argument"),
    ("import nki\n", "import nki\nimport no_such_module\n", 1, None, "no_such_module"),
    ("def kernel(x):", "def kernel(x)", DEF, None, "SyntaxError"),
])
def test_what_is_wrong(tmp_path, before, after, line, rule, says):
    async def steps(editor):
        found = await editor.until(lambda ds: any(d.severity == lsp.DiagnosticSeverity.Error for d in ds))
        [error] = [d for d in found if d.severity == lsp.DiagnosticSeverity.Error]
        assert error.range.start.line == line and says in error.message
        assert rule is None or error.code == rule
    assert before in KERNEL
    session(tmp_path, KERNEL.replace(before, after), steps)


def test_every_finding_of_strict_is_shown_at_its_line(tmp_path, monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    calls = [f"    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.{op})\n" for op in ("max", "sum", "min")]
    store = "    nl.store(out, tile)\n"

    async def steps(editor):
        found = await editor.until(lambda ds: len(ds) == len(calls))
        assert [(d.range.start.line, d.code, d.severity) for d in found] == [
            (ACTIVATION + 1 + i, "sdk_refuses", lsp.DiagnosticSeverity.Error) for i in range(len(calls))]
        assert all(f"nl.{op} is no operator" in d.message for op, d in zip(("max", "sum", "min"), found))
    session(tmp_path, KERNEL.replace(store, "".join(calls) + store), steps)


@pytest.mark.parametrize("said, found", [
    ("x=f32[128,512] --target", "--target has no value"), ("x=f32[128,512] --seed=often", "often"),
    ("x='f32[128,512]", "quotation"), ("x=f32[128,512] --target trn2 --seed=3", None),
    ("x=f32[128,512]:normal", None)])
def test_what_a_comment_says_is_checked_without_running_it(said, found):
    text = KERNEL.replace("x=f32[128,512]:normal", said)
    problems, bare = static.problems(text)
    assert bare == []
    assert [p["rule"] for p in problems] == ["option_value"] * (found is not None)
    assert found is None or (found in str(problems[0]) and "# nkisim: " in str(problems[0]))


def test_without_arguments_a_comment_is_offered(tmp_path):
    async def steps(editor):
        [found] = await editor.problems()
        assert found.code == "nkisim_no_call" and found.severity == lsp.DiagnosticSeverity.Hint
        [action] = await editor.actions([found])
        [edit] = action.edit.changes[editor.uri]
        assert edit.new_text == "# nkisim: x=f32[128,512]\n" and edit.range.start.line == found.range.start.line
        lines = bare.splitlines(keepends=True)
        lines.insert(edit.range.start.line, edit.new_text)
        editor.type("".join(lines))
        assert await editor.problems() == []
        assert ACTIVATION in await editor.hints()
    bare = KERNEL.replace("# nkisim: x=f32[128,512]:normal\n", "")
    session(tmp_path, bare, steps)


def test_the_files_own_example_is_its_call(tmp_path):
    text = KERNEL.replace("# nkisim: x=f32[128,512]:normal\n", "\n") + '''

def main():
    import numpy as np
    found = kernel(np.zeros((128, 512), np.float32))
    raise AssertionError("an example goes no further than its call")


if __name__ == "__main__":
    main()
'''

    async def steps(editor):
        assert await editor.problems() == []
        assert ACTIVATION in await editor.hints()
    session(tmp_path, text, steps)


def test_nothing_is_executed_before_the_workspace_is_trusted(tmp_path):
    mark = tmp_path / "executed"
    text = f"open({str(mark)!r}, 'w').close()\n" + KERNEL.replace("nl.exp", "nl.expp")

    async def steps(editor):
        found = await editor.problems()
        assert [d.code for d in found if d.code] == ["unsupported_call"]
        await asyncio.sleep(1)
        assert not mark.exists() and await editor.hints() == {}
        editor.client.protocol.notify("nkisim/trust", {"trusted": True})
        await editor.problems()
        assert mark.exists()
    session(tmp_path, text, steps, trusted=False)


def test_a_text_that_never_ends_is_ended_by_the_next(tmp_path):
    async def steps(editor):
        await asyncio.sleep(1)
        begin = time.monotonic()
        editor.type(KERNEL)
        assert await editor.problems() == []
        assert time.monotonic() - begin < 5
        editor.type(KERNEL + "\nimport os\nos._exit(3)\n")
        [found] = await editor.problems()
        assert "has ended before its time" in found.message
    session(tmp_path, KERNEL + "\nwhile True: pass\n", steps)


def long_kernel(lines=300):
    """A kernel of about as many lines, an instruction in each but a few."""
    body = "".join(f"    nisa.activation(dst=tile, op=nl.{('exp', 'tanh', 'gelu')[i % 3]}, data=tile)\n"
                   for i in range(lines - 12))
    return KERNEL.replace("    nisa.activation(dst=tile, op=nl.exp, data=tile)\n", body)


def processor_seconds(pid):
    """The processor time of a process and of those that it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(field) for field in fields[11:15])  # its own and those of ended children, user and system
    started = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(processor_seconds, started.split()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say it")
def test_a_kernel_of_300_lines_takes_300_ms(tmp_path):
    """... of processor time, from the keystroke to what is shown, hints included; the best of some."""
    text, times = long_kernel(), []
    assert len(text.splitlines()) == 300

    async def steps(editor):
        await editor.problems()
        await asyncio.sleep(1)
        for number in range(8):
            begin = processor_seconds(editor.client._server.pid)
            editor.type(text.replace("nl.exp", "nl.square", number + 1))
            assert await editor.problems() == []
            assert len(await editor.hints()) > 280
            times.append(processor_seconds(editor.client._server.pid) - begin)
            await asyncio.sleep(0.3)
    session(tmp_path, text, steps)
    print("ms:", [round(1e3 * t) for t in times])
    assert min(times) < 0.3


def test_the_comment_is_the_call_of_nkisim_kernel(tmp_path, capsys):
    from nkisim.tools import kernel_cli
    path = tmp_path / "k.py"
    path.write_text(KERNEL.replace(":normal", ":ones --target trn3"))
    assert kernel_cli.main([f"{path}:kernel"]) == 0
    assert "kernel on trn3" in capsys.readouterr().out
    assert kernel_cli.main([f"{path}:kernel", "--target", "trn1"]) == 0
    assert "kernel on trn1" in capsys.readouterr().out
    path.write_text(KERNEL.replace("x=f32[128,512]:normal", "--lnc"))
    assert kernel_cli.main([f"{path}:kernel"]) == 2
    assert "--lnc has no value" in capsys.readouterr().err


def test_comments_belong_to_their_kernels():
    from nkisim.tools.example_call import call_of
    text = '''# nkisim: x=1
def a(x):
    pass

y = 1
def b(x):
    # nkisim: x=f32[4,4]:ones --seed=3 --lnc 2
    pass
# nkisim: x=2

@decorated(
    "# nkisim: x=4")
def c(x):
    s = "# nkisim: x=3"
'''
    assert call_of(text, "a").words == ["x=1"]
    b = call_of(text, "b")
    assert b.words == ["x=f32[4,4]:ones"] and b.options == {"seed": 3, "lnc": 2} and b.line == 7
    assert call_of(text, "c").words == ["x=2"] and call_of(text, "d") is None
