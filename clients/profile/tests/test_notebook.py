"""Tests the display of results and the %%nkisim magic in notebooks."""

import os
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim_profile import inline  # noqa: E402
from running import ROOT  # noqa: E402


def kernel(x, loops):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(loops):
        tile = nl.exp(tile)
    nl.device_print("sum", tile[0:1, 0:1])
    nl.store(out, tile)
    return out


X = np.zeros((128, 64), np.float32)


def drawing(text):
    return ET.fromstring(re.search(r"<svg.*</svg>", text, re.S)[0])


def test_a_result_shows_summary_verdict_and_timeline(capsys):
    result = nkisim.run(kernel, X, 5)
    printed = capsys.readouterr().out
    text = result._repr_html_()
    assert capsys.readouterr().out == "" and printed  # the repetition prints nothing
    assert f"kernel on trn2: {result.latency_ns / 1e3:.3f} us" in text
    assert "Its critical path is" in text and "engines busy" in text
    assert not re.search(r"<script|src=|href=|https?://(?!www.w3.org/2000/svg)", text)
    titles = [t.text for t in drawing(text).iter("{http://www.w3.org/2000/svg}title")]
    assert sum("test_notebook.py:" in t for t in titles) > 5
    np.testing.assert_array_equal(result.outputs.shape, X.shape)


def test_bars_lie_where_the_profile_file_has_them(tmp_path):
    result = nkisim.run(kernel, X, 2)
    result.write(session=tmp_path / "s.npz")
    from nkisim_profile.session import Session
    s = Session(tmp_path / "s.npz")
    bars = inline.lanes(s)
    assert set(lane for _, lane in bars) <= set(inline.COLOURS) and (0, "Scalar") in bars
    scale = (inline.WIDTH - inline.LEFT - 8) / (s.end_fs / 1e6)
    drawn = [r for r in drawing(inline.picture(s)).iter("{http://www.w3.org/2000/svg}rect")
             if r.get("fill") == inline.COLOURS["Scalar"]]
    start, end, _ = bars[0, "Scalar"][0]
    assert float(drawn[0].get("x")) == pytest.approx(inline.LEFT + start * scale, abs=0.01)
    widths = sum(float(r.get("width")) for r in drawn)
    total = sum(b - a for a, b, _, _ in inline.merged(bars[0, "Scalar"], 0.5 / scale))
    assert widths == pytest.approx(total * scale, abs=0.6 * len(drawn))


def test_bars_too_near_to_distinguish_are_one():
    bars = [(0, 1, "a"), (1.2, 2, "b"), (1.5, 1.6, "c"), (9, 10, "d")]
    assert inline.merged(bars, 0.5) == [(0, 2, "a", 3), (9, 10, "d", 1)]
    assert inline.steps(51.2) == [0, 10, 20, 30, 40, 50] and inline.steps(7) == list(range(8))
    for end in (0.3, 99, 100, 1234567):
        assert 2 <= len(inline.steps(end)) <= 9 or end < 1


def test_a_run_for_values_only(monkeypatch):
    assert "values only" in nkisim.run(kernel, X, 1, timing=False)._repr_html_()
    result = nkisim.run(kernel, X, 1)
    result.run_seconds = 60
    text = result._repr_html_()
    assert "The run took 60 s; result.perfetto(FILE)" in text and "<svg" not in text


@pytest.fixture
def shell():
    testing = pytest.importorskip("IPython.testing.globalipapp",
                                  reason="IPython is not installed (scripts/setup --frameworks)")
    shell = testing.get_ipython() or testing.start_ipython()
    shell.run_line_magic("load_ext", "nkisim")
    shell.display_formatter.active_types = ["text/plain", "text/html"]
    shell.user_ns.update(nki=nki, kernel=nki.jit(kernel), other=nki.jit(lambda x: kernel(x, 1)), X=X)
    return shell


def output_of_cell(shell, line, cell):
    from IPython.utils.capture import capture_output
    with capture_output() as captured:
        shell.run_cell(f"%%nkisim {line}\n{cell}")
    return "".join(o.data.get("text/html", "") for o in captured.outputs), captured.stderr + \
        captured.stdout


def test_the_magic_times_profiles_and_compares(shell):
    a, b = (nkisim.run(kernel, X, n).latency_ns / 1e3 for n in (2, 4))
    text, _ = output_of_cell(shell, "", "y = kernel(X, 2); kernel(X, 2)")
    assert f"2 kernel runs, {2 * a:.3f} us simulated" in text and shell.user_ns["y"].shape == X.shape
    text, _ = output_of_cell(shell, "compare", "kernel(X, 4)")
    assert f"{b:.3f}" in text and f"{a:.3f}" in text and f"{100 * (b - a) / a:+.1f} %" in text
    text, _ = output_of_cell(shell, "profile", "kernel(X, 4)")
    assert text.count("<svg") == 1
    text, _ = output_of_cell(shell, "compare", "1 + 1")
    assert "no kernel ran" in text


def test_the_bar_expects_what_the_cell_before_ran(shell, monkeypatch):
    from nkisim.tools import notebook
    expected = []
    monkeypatch.setattr(notebook, "_bar", expected.append)
    for cell in ("kernel(X, 1); kernel(X, 2); kernel(X, 1)", "kernel(X, 1)", "kernel(X, 1)"):
        output_of_cell(shell, "", cell)
    assert expected[1:] == [3, 1]


def test_a_profile_shows_the_three_costliest_kernels(shell):
    """Results of five, as the session gives them to its listeners."""
    text, _ = output_of_cell(shell, "profile", """
from types import SimpleNamespace
from nkisim.run.session import LISTENERS
for name, us in (("a", 3), ("b", 1), ("c", 5), ("d", 2), ("e", 4)):
    LISTENERS[-1](SimpleNamespace(name=name, latency_ns=1e3 * us, record_seconds=0, run_seconds=0,
                                  _repr_html_=lambda name=name: f"<svg>picture of {name}</svg>"))
""")
    assert re.findall("picture of .", text) == ["picture of c", "picture of e", "picture of a"]
    assert "5 kernel runs, 15.000 us simulated" in text


def test_a_terminal_gets_text():
    pytest.importorskip("IPython", reason="IPython is not installed (scripts/setup --frameworks)")
    from nkisim.tools import notebook
    kernels = {"a": [2, 3000.0, None, 0.5], "b": [1, 9000.0, None, 0.25]}
    shown = notebook.Shown("line", notebook.rows(kernels, {"a": (1, 1000.0), "c": (1, 5000.0)}))
    assert repr(shown).splitlines() == [
        "line", "kernel  runs  us each     us  host s  us each before   change",
        "b          1    9.000  9.000    0.25                      new",
        "a          2    1.500  3.000    0.50           1.000  +50.0 %",
        "c          0                                   5.000     gone"]


def test_the_magics_target_holds_for_the_cell(shell, monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    slow = nkisim.run(kernel, X, 3, target="trn1").latency_ns / 1e3
    text, _ = output_of_cell(shell, "--target inf2", "kernel(X, 3)")
    assert f"{nkisim.run(kernel, X, 3, target='inf2').latency_ns / 1e3:.3f} us" in text
    assert "NEURON_PLATFORM_TARGET_OVERRIDE" not in os.environ and slow > 0


@pytest.mark.parametrize("line, message", [("faster", "invalid choice: 'faster'"),
                                           ("--target trn9", "target is 'trn9'")])
def test_the_magics_mistakes(shell, line, message):
    _, said = output_of_cell(shell, line, "kernel(X, 1)")
    assert message in said


def test_a_failing_cell_says_why_itself(shell):
    text, said = output_of_cell(shell, "", "kernel(X, 1); 1 / 0")
    assert "ZeroDivisionError" in said and "kernel runs" not in text


@pytest.mark.process
@pytest.mark.slow
def test_the_example_notebook_runs(monkeypatch, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (scripts/setup --frameworks)")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (scripts/setup --frameworks)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(ROOT / "examples" / "softmax.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = ["".join(o.get("data", {}).get("text/html", "") for o in c.outputs) for c in notebook.cells
             if c.cell_type == "code"]
    assert "softmax on trn2" in shown[2] and shown[2].count("<svg") == 1
    assert "1 kernel runs" in shown[3] and shown[3].count('<iframe sandbox="allow-scripts"') == 1
    assert "function shareBars" in shown[3] and not re.search(r"<script", shown[3])  # what is in the frame is escaped
    assert shown[4] == "" and "us each before" in shown[5]
    assert shown[5].count("<tr>") == 2 and re.search(r"[+-][0-9.]+ %", shown[5])
