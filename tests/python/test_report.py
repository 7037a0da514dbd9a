"""The HTML report in headless Chromium: opens without errors, zooms, and search finds."""
import os
import pathlib
import shutil
import subprocess

import pytest

pytest.importorskip("plotly")
api = pytest.importorskip("playwright.sync_api")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
CHROMIUM = os.environ.get("NKISIM_CHROMIUM") or shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_report_works_offline(tmp_path):
    page_file = tmp_path / "k.html"
    subprocess.run([PROGRAM, "run", str(ROOT / "traces" / "flash_attention.jsonl"), "--quiet",
                    "--html", str(page_file)], check=True)
    errors, requests = [], []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 1000})
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: requests.append(r.url))
        page.goto(page_file.as_uri())
        page.wait_for_function("window.nkisim && window.nkisim.ready")
        whole = page.evaluate("nkisim.view.to - nkisim.view.from")
        page.hover("#timeline", position={"x": 700, "y": 60})
        page.mouse.wheel(0, -900)
        page.wait_for_function(f"nkisim.view.to - nkisim.view.from < {whole} / 2")
        page.fill("#search", "exp")
        page.fill("#search", "ACTIVATE")
        assert page.evaluate("nkisim.found().length") > 0
        page.press("#search", "Enter")
        assert "1 of" in page.inner_text("#status")
        page.click("#reset")
        page.wait_for_function(f"nkisim.view.to - nkisim.view.from > {whole} * 0.99")
        sums = page.evaluate("[...document.querySelectorAll('#stalls tr:last-child th.n')]"
                             ".map((e) => e.textContent)")
        assert sums and set(sums) == {"100.0"}
        shots = os.environ.get("NKISIM_SCREENSHOTS")
        if shots:
            page.fill("#search", "")
            page.screenshot(path=str(pathlib.Path(shots) / "report.png"), full_page=True)
        browser.close()
    assert not errors
    assert [r for r in requests if not r.startswith(("file:", "data:", "blob:"))] == []
