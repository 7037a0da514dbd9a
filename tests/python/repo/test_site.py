"""Tests the output of scripts/site, as far as possible without mkdocs: its pages, their links, its navigation."""

import importlib.util
import pathlib
import re
import sys

import pytest

from running import ROOT, SOURCES, needs_clients

yaml = pytest.importorskip("yaml")
pytestmark = needs_clients


@pytest.fixture(scope="module")
def site_pages():
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "scripts" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def navigation():
    """The pages that mkdocs.yml names."""
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text())

    def pages(entry):
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(inner)
    return list(pages(yaml.safe_load(text)["nav"]))


def test_the_navigation_has_every_page():
    found = navigation()
    assert len(found) == len(set(found))
    made = {"gallery/index.md", "api.md", "instructions.md"}
    assert set(found) - made == {p.name for p in (ROOT / "docs").glob("*.md")}


def test_every_link_of_a_page_leads_to_a_page_of_the_site(site_pages, tmp_path):
    pages = site_pages.Pages(tmp_path)
    pages.make()
    count = 0
    for page in tmp_path.rglob("*.md"):
        text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            name = link.partition("#")[0]
            if name and not re.match(r"[a-z]+:", link):
                count += 1
                assert (page.parent / name).is_file(), f"{page.relative_to(tmp_path)}: {link}"
                assert (page.parent / name).resolve().is_relative_to(tmp_path)
    assert count > 150
    assert (tmp_path / "files/examples/README.md").exists() and (tmp_path / "images/house.svg").exists()
    assert (tmp_path / "files/examples/matmul.py.txt").read_text() == (ROOT / "examples/matmul.py").read_text()


def test_what_the_api_documents_exists(site_pages):
    for name in [n for names in site_pages.DOCUMENTED.values() for n in names]:
        module, _, attribute = name.rpartition(".")
        path = next(p for folder in SOURCES if (p := folder.joinpath(*module.split(".")).with_suffix(".py")).exists())
        assert re.search(rf"^(async )?(def|class) {attribute}\b.*?\"\"\"", path.read_text(), re.M | re.S), name
        assert f"::: {name}\n" in site_pages.api()


def test_broken_links_are_found(site_pages, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="top1"></h1><a href="a/">a</a><a href="a/#there">b</a>'
                                         '<img src="x.png"><a href="https://elsewhere.example/">c</a>'
                                         '<a href="#top1">d</a>')
    (tmp_path / "a" / "index.html").write_text('<p id="there"></p><a href="../#no">e</a><a href="../none/">f</a>')
    count, wrong = site_pages.broken(tmp_path)
    assert count == 6
    assert sorted(wrong) == ["a/index.html: ../#no", "a/index.html: ../none/", "index.html: x.png"]


@pytest.mark.process
def test_a_page_that_cannot_be_read_is_found(tmp_path):
    """The measurements of scripts/site_look.py, on a page with a mistake of each kind."""
    spec = importlib.util.spec_from_file_location("site_look", ROOT / "scripts" / "site_look.py")
    look = importlib.util.module_from_spec(spec)
    pytest.importorskip("playwright")
    spec.loader.exec_module(look)
    chromium = pathlib.Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("Chromium is not installed")
    (tmp_path / "index.html").write_text(
        '<!doctype html><html><body style="background:#fff"><article><h1>One</h1><p style="color:#aaa">pale</p>'
        '<p style="color:#666">dark enough</p><p style="color:#888;font-size:30px">large</p>'
        '<div style="width:600px">wide</div><img src="none.png"></article>'
        '<script>undefined_name()</script></body></html>')
    look.PAGES = ("",)
    server = look.served(tmp_path)
    with look.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        wide, narrow, dark = (list(look.looked_at(browser, address, *how, None)) for how in (
            ("light", 1280), ("light", 400), ("dark", 1280)))
        browser.close()
    server.shutdown()
    assert [w for w in wide if "contrast" in w] == ["/ light 1280: 'pale' has contrast 2.32 (P., rgb(170, 170, 170))"]
    said = "\n".join(wide)
    assert all(text in said for text in ("an image has no text", "an image is missing", "has no language",
                                         "a script fails: undefined_name is not defined"))
    assert "pixels wide" not in said and any("pixels wide: DIV." in n for n in narrow)
    assert any("its background is rgb(255, 255, 255)" in d for d in dark)
