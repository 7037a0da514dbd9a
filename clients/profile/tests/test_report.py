"""Tests the HTML report of a run in headless Chromium: it opens without errors or network, zooms,
finds, explains.

NKISIM_SCREENSHOTS=docs/images writes the pictures of the documents.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from running import ROOT, cli, python

pytestmark = pytest.mark.process
api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("NKISIM_CHROMIUM") or shutil.which("chromium")
SHOTS = os.environ.get("NKISIM_SCREENSHOTS")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SPAN = "nkisim.view.to - nkisim.view.from"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, path):
    """A page of the report; fails if it reports an error or asks for anything but itself."""
    errors, requests = [], []
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: requests.append(r.url))
    page.goto(path.as_uri())
    page.wait_for_function("window.nkisim && window.nkisim.ready")
    yield page
    page.close()
    assert not errors
    assert [r for r in requests if not r.startswith(("file:", "data:", "blob:"))] == []


def report(trace, path, *options):
    cli("run", trace, "--quiet", "--html", path, *options, cwd=ROOT)
    return path


def picture(browser, path, name):
    """A screenshot of the report for the documents, if they are asked for."""
    if not SHOTS:
        return
    from PIL import Image

    page = browser.new_page(viewport={"width": 1500, "height": 1000}, device_scale_factor=0.7)
    page.goto(path.as_uri())
    page.wait_for_function("window.nkisim && window.nkisim.ready")
    page.wait_for_timeout(500)
    shot = pathlib.Path(SHOTS) / f"{name}.png"
    page.screenshot(path=str(shot), full_page=True)
    page.close()
    with Image.open(shot) as image:
        few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT,
                                            dither=Image.Dither.NONE)
    few.save(shot, optimize=True)
    assert shot.stat().st_size < 200_000


@pytest.fixture(scope="module")
def attention(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    return report(ROOT / "traces" / "flash_attention.jsonl", folder / "k.html")


@needs_chromium
def test_the_timeline_zooms_moves_and_measures(browser, attention):
    with opened(browser, attention) as page:
        whole = page.evaluate(SPAN)
        page.hover("#timeline", position={"x": 700, "y": 60})
        page.mouse.wheel(0, -900)
        page.wait_for_function(f"{SPAN} < {whole} / 2")
        before = page.evaluate("nkisim.view.from")
        page.keyboard.press("d")
        page.wait_for_function(f"nkisim.view.from > {before}")
        page.click("#reset")
        page.wait_for_function(f"{SPAN} > {whole} * 0.99")
        page.hover("#timeline", position={"x": 500, "y": 60})
        page.keyboard.down("Shift")
        page.mouse.down()
        page.mouse.move(1000, 400)
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_function("document.querySelector('#status').textContent.includes('Vector')")


#: Texts of the charts that another one covers or that the picture's edge cuts off.
COLLIDING = """() => {
  const found = [];
  const clear_of = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
  const apart = (a, b) => clear_of(a, b) || clear_of(b, a);
  for (const plot of document.querySelectorAll('svg.plot')) {
    const f = plot.getBoundingClientRect(), texts = [...plot.querySelectorAll('text')].filter(e => e.textContent);
    texts.forEach((e, i) => {
      const b = e.getBoundingClientRect();
      if (b.left < f.left - 1 || b.right > f.right + 1 || b.top < f.top - 1 || b.bottom > f.bottom + 1)
        found.push(plot.parentNode.id + ': cut off: ' + e.textContent);
      for (const other of texts.slice(i + 1))
        if (!apart(b, other.getBoundingClientRect()))
          found.push(`${plot.parentNode.id}: ${e.textContent} over ${other.textContent}`);
    });
  }
  return found;
}"""


@needs_chromium
@pytest.mark.parametrize("width", [400, 1280])
def test_no_label_lies_on_another(width, browser, attention):
    with opened(browser, attention) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        page.wait_for_function("window.nkisim && window.nkisim.ready")
        page.wait_for_timeout(500)
        labels = page.evaluate("nkisim.labels")
        assert len(labels) >= 2
        assert all(a[1] < b[0] for a, b in zip(labels, labels[1:])), labels
        assert labels[-1][1] <= page.evaluate("document.getElementById('timeline').clientWidth")
        assert page.evaluate(COLLIDING) == []
        for name in ("stallbars", "dma"):  # what the colours mean is all to be seen
            box = page.locator(f"#{name}").locator("xpath=..").locator(".legend")
            assert box.count() == 1 and len(box.inner_text().split()) >= 4
            assert page.evaluate("(e) => e.scrollHeight <= e.clientHeight + 1 && e.scrollWidth <= e.clientWidth + 1",
                                 box.element_handle())


@needs_chromium
def test_search_finds_an_instruction_and_its_story(browser, attention):
    with opened(browser, attention) as page:
        page.fill("#search", "ACTIVATE")
        page.press("#search", "Enter")
        activates = page.evaluate("nkisim.data.summary.activate_instruction_count")
        # The loads of the function tables carry the same operands.
        assert page.evaluate("nkisim.found().length") >= activates > 0
        assert "1 of" in page.inner_text("#status")
        detail = page.inner_text("#detail")
        assert "flash_attention.py:" in detail and "t.activation(" in detail and "dst=" in detail
        chosen = page.evaluate("nkisim.timeline.producer.findIndex((p) => p >= 0)")
        page.evaluate(f"nkisim.show({chosen})")
        page.click("#detail button")
        producer = page.evaluate(f"nkisim.timeline.producer[{chosen}]")
        name = page.evaluate(f"nkisim.timeline.texts[nkisim.timeline.name[{producer}]]")
        assert page.inner_text("#detail").startswith(name)
        page.fill("#search", "no such thing")
        page.wait_for_function("document.querySelector('#status').textContent === '0 found'")


@needs_chromium
def test_hover_shows_operands_and_source(browser, attention):
    with opened(browser, attention) as page:
        track = page.evaluate("nkisim.timeline.tracks.indexOf('Vector')")
        page.evaluate(f"nkisim.show(nkisim.timeline.first[{track}])")
        page.wait_for_function(f"{SPAN} < 10000")
        page.hover("#timeline", position={"x": 830, "y": 30 + 19 * track + 9})
        tip = page.inner_text("#tip")
        assert "dst=" in tip and "flash_attention.py:" in tip


@needs_chromium
def test_tables_add_up(browser, attention):
    with opened(browser, attention) as page:
        sums = page.evaluate("[...document.querySelectorAll('#stalls tr:last-child th.n')]"
                             ".map((e) => e.textContent)")
        assert sums and set(sums) == {"100.0"}
        for chart in ("stallbars", "roofline", "dma"):
            assert page.evaluate(f"document.querySelectorAll('#{chart} svg').length") > 0
        assert page.evaluate("document.querySelectorAll('#code tr.bar').length") == page.evaluate(
            "Object.keys(Object.values(nkisim.data.lines.files)[0].time).length")
        page.click("#hot tr.bar")
        assert "1 of" in page.inner_text("#status")
        assert page.evaluate("document.querySelectorAll('#code tr.found').length") == 1
        # The critical path covers the run without a gap, and lines name all of it.
        shares = page.evaluate("nkisim.data.lines.rows.reduce((s, r) => s + r.critical, 0)"
                               " / nkisim.data.end_fs")
        assert 0.9 < shares <= 1.001
    picture(browser, attention, "report_attention")


def run_script(script, *words):
    python(ROOT / script, *words)


@needs_chromium
def test_the_large_matmul(browser, tmp_path):
    run_script("traces/make.py", "matmul_2048", "--out", tmp_path)
    path = report(tmp_path / "matmul_2048.jsonl", tmp_path / "k.html", "--timing-only")
    with opened(browser, path) as page:
        assert page.evaluate("nkisim.data.curves.map((c) => c.name)") == [
            "HBM traffic", "DMAs pending", "SBUF in use", "PSUM in use"]
        assert page.evaluate("nkisim.data.maps.map((m) => m.name)") == ["SBUF map", "PSUM map"]
        assert page.evaluate("nkisim.data.curves[3].top") == 100  # all eight banks
        assert "of the roof" in page.inner_text("#roofline")
        # The PE array is busy for 94 % of the run, and nothing else bounds it.
        assert re.search(r"critical path is 9\d % Tensor at work", page.inner_text("#verdict"))
    picture(browser, path, "report_matmul")


TWO_CORES = [
    {"nisa": 1, "target": "trn2", "cores": 2},
    {"tensor": {"name": "x", "dtype": "float32", "shape": [128, 8], "role": "input",
                "data": {"generator": "ones"}}},
    {"tensor": {"name": "y", "dtype": "float32", "shape": [128, 8], "role": "output"}},
    {"i": "dma_copy", "dst": "y", "src": "x", "core": 0},
    *({"i": "core_barrier", "data": "y", "cores": [0, 1], "core": c} for c in (0, 1))]


@needs_chromium
def test_programs_of_other_kinds(browser, tmp_path):
    """A loop with values that decide its course, no matmul, two cores, no source lines."""
    two = tmp_path / "two.jsonl"
    two.write_text("\n".join(map(json.dumps, TWO_CORES)))
    for trace in (ROOT / "traces" / "gather_loop.jsonl", two):
        session, path = tmp_path / f"{trace.stem}.npz", tmp_path / f"{trace.stem}.html"
        cli("run", trace, "--quiet", "--session", session, cwd=ROOT)
        python("-m", "nkisim_profile", "report", session, "-o", path)
        with opened(browser, path) as page:
            assert "No matmuls" in page.inner_text("#roofline")
            assert page.is_hidden("#whatif-box") and page.is_visible("#verdict")
            shares = page.evaluate("[...document.querySelectorAll('#hot tr.bar td:last-child')]"
                                   ".map((e) => parseFloat(e.textContent))")
            assert 50 < sum(shares) <= 100.5
            assert page.is_hidden("#source") == (trace == two)
            cores = page.evaluate("nkisim.data.machine.cores")
            assert page.evaluate("nkisim.timeline.tracks").count("Critical path") == (cores == 1)


@needs_chromium
def test_two_hundred_thousand_instructions(browser, tmp_path):
    run_script("bench/million.py", tmp_path / "k.jsonl", 200_000)
    session, path = tmp_path / "k.npz", tmp_path / "k.html"
    cli("run", tmp_path / "k.jsonl", "--quiet", "--timing-only", "--session", session)
    python("-m", "nkisim_profile", "report", session, "-o", path)
    assert path.stat().st_size < 4_000_000
    with opened(browser, path) as page:
        assert page.evaluate("nkisim.slices") > 600_000
        assert page.evaluate("nkisim.ready_ms") < 20_000  # 1.5 s on an idle machine
        page.hover("#timeline", position={"x": 700, "y": 100})
        times = []
        for delta in [-300] * 15 + [300] * 15:
            page.mouse.wheel(0, delta)
            page.wait_for_timeout(30)
            times.append(page.evaluate("nkisim.draw_ms"))
        assert np.median(times) < 100  # 7 ms on an idle machine
        page.fill("#search", "k.jsonl:1234")
        page.press("#search", "Enter")
        assert page.evaluate("nkisim.found().length") > 0


def test_curves_keep_their_extremes():
    spec = importlib.util.find_spec("nkisim_profile.report.occupancy")
    if spec is None:
        pytest.skip("needs nkisim_profile in PYTHONPATH")
    from nkisim_profile.report.occupancy import POINTS, reduced

    time, value = np.arange(5 * POINTS, dtype=float), np.zeros(5 * POINTS)
    value[12345] = 7
    value[-1] = 3
    at, largest = reduced(time, value, 5 * POINTS, False)
    assert len(at) == POINTS and largest.max() == 7 and largest[-1] == 3
    assert largest[at.searchsorted(12345, side="right") - 1] == 7
    _, mean = reduced(time, np.full(5 * POINTS, 2.0), 5 * POINTS - 1, True)
    assert np.allclose(mean, 2)
