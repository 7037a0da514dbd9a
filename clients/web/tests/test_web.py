"""Tests the browser version of nkisim (scripts/web) in headless Chromium: it shows the program's
own results.

NKISIM_TEST_WEB=build/web/site runs these tests; NKISIM_SCREENSHOTS=FOLDER keeps pictures of the page.
"""

import functools
import http.server
import importlib
import importlib.util
import os
import pathlib
import re
import shutil
import threading

import numpy as np
import pytest

from running import ROOT, cli

SITE = os.environ.get("NKISIM_TEST_WEB")
CHROMIUM = os.environ.get("NKISIM_CHROMIUM") or shutil.which("chromium")
pytestmark = [pytest.mark.process, pytest.mark.slow,
              pytest.mark.skipif(SITE is None, reason="NKISIM_TEST_WEB is not set: scripts/web builds a site"),
              pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]
api = pytest.importorskip("playwright.sync_api")
TRACES = sorted(path.stem for path in (ROOT / "traces").glob("*.jsonl"))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(scope="module")
def address():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    """The page, ready; fails if it reports an error or asks for anything that is not its own."""
    errors, requests = [], []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: requests.append(r.url))
    page.goto(address)
    page.wait_for_function("window.nkisim.ready", timeout=60_000)
    yield page
    page.close()
    assert not errors
    assert [r for r in requests if not r.startswith((address, "data:", "blob:"))] == []


def simulate(page):
    """Clicks Run; what the program wrote, in the page's words."""
    runs = page.evaluate("nkisim.runs")
    page.click("#run")
    page.wait_for_function(f"nkisim.runs > {runs}", timeout=120_000)
    return page.text_content("#said")


def test_the_page_shows_the_latency_that_the_program_prints(page):
    assert page.input_value("#example") == "softmax"
    page.uncheck("#compare")
    said = simulate(page)
    native = cli("run", "traces/softmax.jsonl", cwd=ROOT).stdout
    assert said == native
    assert page.text_content("#latency") == re.search(r"^latency +(.*)$", native, re.M)[1]
    assert page.text_content("#errors") == ""


@pytest.mark.parametrize("name", TRACES)
def test_every_example_says_the_same_as_the_program_values_included(page, name):
    page.select_option("#example", name)
    said = simulate(page)
    example = page.evaluate("fetch('examples.json').then(a => a.json())")
    words = next(e["words"] for e in example if e["name"] == name)
    native = cli("run", f"traces/{name}.jsonl", *words, cwd=ROOT).stdout
    assert said == native and "output " in said
    assert page.evaluate("nkisim.result.code") == 0


def test_another_target_and_options(page):
    page.uncheck("#compare")
    page.select_option("#target", "trn1")
    page.fill("#options", "--set dma.bytes_per_ns=10")
    words = ["--target", "trn1", "--set", "dma.bytes_per_ns=10"]
    assert simulate(page) == cli("run", "traces/softmax.jsonl", *words, cwd=ROOT).stdout


def test_the_timeline_is_the_reports(page, tmp_path):
    """tracks.js against nkisim_profile, which makes the timeline of `nkisim report`."""
    report = pytest.importorskip("nkisim_profile.report.timeline")
    session = importlib.import_module("nkisim_profile.session")
    for name in ("flash_attention", "semaphores"):
        page.select_option("#example", name)
        simulate(page)
        cli("run", f"traces/{name}.jsonl", "--session", tmp_path / "s.npz", cwd=ROOT)
        s = session.Session(tmp_path / "s.npz")
        texts = report.Texts(s.texts)
        wanted = report.tracks_of(s, texts)
        found = page.evaluate("""() => { const T = nkisim.timeline, list = (x, f) => Array.from(x, f);
          return { tracks: T.tracks, first: T.first, start: list(T.start), end: list(T.end), wait: list(T.wait),
                   cause: list(T.cause), inst: list(T.inst), producer: list(T.producer),
                   name: list(T.name, (i) => T.texts[i]), detail: list(T.detail, (i) => T.texts[i]) }; }""")
        assert (found["tracks"], found["first"]) == (wanted.names, wanted.first)
        for key in ("start", "end", "wait"):
            np.testing.assert_allclose(found[key], wanted.column(key) / 1e6, rtol=1e-12)
        for key in ("cause", "inst"):
            np.testing.assert_array_equal(found[key], wanted.column(key))
        for key in ("name", "detail"):
            assert found[key] == [texts.all[i] for i in wanted.column(key).tolist()]
        np.testing.assert_array_equal(found["producer"], report.slice_of_producer(s, wanted.column("event")))
        assert max(found["producer"]) > 0


def test_an_own_file_runs_and_a_mistake_is_reported(page, tmp_path):
    lines = (ROOT / "traces" / "tensor_add.jsonl").read_text().replace('"tensor_add"', '"mine"')
    good, bad = tmp_path / "mine.jsonl", tmp_path / "bad.jsonl"
    good.write_text(lines)
    bad.write_text(lines.replace("tensor_tensor", "tensor_tenser"))
    page.set_input_files("#own", good)
    page.wait_for_function("nkisim.runs === 1")
    assert page.text_content("#said") == cli("run", good.name, cwd=tmp_path).stdout
    page.set_input_files("#own", bad)
    page.wait_for_function("nkisim.runs === 2")
    assert page.text_content("#errors") == cli("run", bad.name, cwd=tmp_path, code=3).stderr
    assert "exit code 3" in page.text_content("#state") and page.is_hidden("#latency-box")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_and_can_be_read(browser, address, width, scheme):
    spec = importlib.util.spec_from_file_location("site_look", ROOT / "scripts" / "site_look.py")
    look = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(look)
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_function("window.nkisim.ready", timeout=60_000)
    simulate(page)
    if "NKISIM_SCREENSHOTS" in os.environ:
        shot = pathlib.Path(os.environ["NKISIM_SCREENSHOTS"]) / f"web-{width}-{scheme}.png"
        page.screenshot(path=shot, full_page=True)
    assert page.evaluate(look.CONTRAST) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    page.close()
