#!/usr/bin/env python3
"""Checks a built site in headless Chromium: scripts/site_look.py SITE [PICTURES].

For pages of every kind, in light and dark, 1280 and 400 pixels wide: nothing is wider than the window, text has the
contrast that WCAG's level AA asks for (4.5, large text 3), images have a text, a heading comes first, scripts raise
no errors. Says what is wrong, a line each, and exits with 1. PICTURES: a folder for pictures of all of it.
"""

import functools
import http.server
import pathlib
import sys
import threading

from playwright.sync_api import sync_playwright

PAGES = ("", "start/", "tutorial/", "mistakes/", "python/", "editor/", "instructions/", "api/", "glossary/",
         "evidence/", "gallery/", "gallery/softmax/", "frameworks/")
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")
#: Texts whose contrast with what is behind them is too low, as [text, ratio].
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (css) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = "#000"; canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data;
    return [...d.slice(0, 3), d[3] / 255]; };
  const over = (a, b) => a.slice(0, 3).map((v, i) => v * a[3] + b[i] * (1 - a[3]));
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const layers = [];
    for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((b, c) => over(c, b), [255, 255, 255]); };
  const found = [], seen = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, said = walk.currentNode.data.trim(), s = getComputedStyle(e);
    if (!said || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || !e.getClientRects().length ||
        e.closest("script, style, .headerlink, .md-search, [hidden]") || s.opacity === "0") continue;
    const back = behind(e), ink = over(rgba(s.color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
    const key = s.color + back + large;
    if (ratio < (large ? 3 : 4.5) && !seen.has(key)) { seen.add(key);
      found.push([said.slice(0, 40), ratio.toFixed(2), e.tagName + "." + e.className, s.color]); }
  }
  return found;
}"""
#: Everything else, as sentences.
OTHERS = """() => {
  const found = [], root = document.scrollingElement;
  if (root.scrollWidth > window.innerWidth) {
    const wide = [...document.querySelectorAll("body *")].filter(
      e => e.getBoundingClientRect().right > innerWidth + 1 &&
      ![...(function*(){ for (let p = e.parentElement; p; p = p.parentElement) yield p; })()].some(
        p => getComputedStyle(p).overflowX !== "visible" && p !== document.body));
    found.push(`is ${root.scrollWidth} pixels wide: ` + wide.slice(0, 3).map(e => e.tagName + "." + e.className)); }
  for (const i of document.querySelectorAll("article img")) {
    if (!i.alt) found.push("an image has no text: " + i.src);
    if (i.complete && !i.naturalWidth) found.push("an image is missing: " + i.src); }
  for (const f of document.querySelectorAll("iframe")) if (!f.title) found.push("a frame has no title");
  if (document.querySelectorAll("article h1").length !== 1) found.push("has not one first heading");
  if (!document.documentElement.lang) found.push("has no language");
  return found;
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def served(site):
    """A server of a folder on a free port."""
    handler = functools.partial(_Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def looked_at(browser, address, scheme, width, pictures):
    """The faults of the pages at one width and scheme."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    for name in PAGES:
        tab, errors = context.new_page(), []
        tab.on("pageerror", lambda e, errors=errors: errors.append(f"a script fails: {e}"))
        tab.goto(address + name, wait_until="load")
        found = [f"{text!r} has contrast {ratio} ({where}, {ink})"
                 for text, ratio, where, ink in tab.evaluate(CONTRAST)]
        back = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
        dark = sum(map(float, back[back.index("(") + 1:-1].split(",")[:3])) < 300
        if dark != (scheme == "dark"):
            found.append(f"its background is {back}")
        for problem in [*found, *tab.evaluate(OTHERS), *errors]:
            yield f"/{name} {scheme} {width}: {problem}"
        if pictures:
            tab.screenshot(path=pictures / f"{name.strip('/').replace('/', '-') or 'index'}-{scheme}-{width}.png")
        tab.close()
    context.close()


def main(words):
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    pictures = pathlib.Path(words[1]) if len(words) > 1 else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    server = served(pathlib.Path(words[0]).resolve())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        wrong = [p for scheme in SCHEMES for width in WIDTHS
                 for p in looked_at(browser, address, scheme, width, pictures)]
        browser.close()
    server.shutdown()
    print("\n".join([*wrong, f"site: {len(PAGES)} pages looked at, {len(wrong)} things wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
