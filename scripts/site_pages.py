#!/usr/bin/env python3
"""Makes the pages of the documentation site, and checks their links; scripts/site calls both.

    scripts/site_pages.py make FOLDER     # docs/ and what it links to, the gallery, the Python API
    scripts/site_pages.py check FOLDER    # every link of a built site leads to a file and an anchor: exit code 1

Pages of docs/ are taken as they are. Files that they link to outside docs/ are copied below files/, Markdown among
them as pages. The gallery simulates every example on trn2 and embeds its report.
"""

import html.parser
import importlib
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
NKISIM = ROOT / "build" / "release" / "nkisim"
_LINK = re.compile(r"(?<!`)(\]\()([^)\s]+)(\))")
API = """# The Python API

Written from the docstrings. `import nkisim` has what stands under "nkisim"; [python.md](python.md) explains it.

## nkisim

{nkisim}

## Many kernels

{evaluate}

## Adapters

{adapters}
"""
#: Names that users import, by where they are defined.
DOCUMENTED = {
    "nkisim": ("nkisim.run.kernel.run", "nkisim.run.result.Result", "nkisim.run.options.Options",
               "nkisim.run.kernel.Kernel", "nkisim.run.shapes.shapes", "nkisim.run.shapes.Recording",
               "nkisim.values.shape.Shape", "nkisim.run.world.per_rank", "nkisim.run.layers.per_layer",
               "nkisim.run.layers.LayersResult", "nkisim.run.worldresult.WorldResult",
               "nkisim.run.worldresult.RankResult", "nkisim.tools.timeline.Timeline", "nkisim.tools.install.install",
               "nkisim.values.errors.Error"),
    "evaluate": ("nkisim_evaluate.api.evaluate", "nkisim_evaluate.api.evaluate_async", "nkisim_evaluate.tuning.tune",
                 "nkisim_evaluate.evaluator.Evaluator", "nkisim_evaluate.reference.Reference"),
    "adapters": ("nkisim_adapters.rl.Environment", "nkisim_adapters.rl.parts_of", "nkisim_adapters.tasks.Task",
                 "nkisim_adapters.accelopt.NKIKernel"),
}


def api():
    return API.format(**{group: "\n".join(f"::: {name}" for name in names) for group, names in DOCUMENTED.items()})


class Pages:
    """Copies pages; `moved` is where files outside docs/ went, by their path in the repository."""

    def __init__(self, out):
        self.out, self.moved, self._todo = out, {}, []

    def make(self):
        for path in sorted((ROOT / "docs").rglob("*")):
            if path.is_file() and path.suffix != ".py":
                self._copy(path, path.relative_to(ROOT / "docs"))
        while self._todo:
            self._copy(*self._todo.pop())
        (self.out / "api.md").write_text(api())

    def _copy(self, path, to):
        target = self.out / to
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, target)
            return
        text = path.read_text(encoding="utf-8")
        parts = re.split(r"(^```.*?^```|`[^`\n]+`)", text, flags=re.M | re.S)  # code stays as it is
        parts[::2] = [_LINK.sub(lambda m: m[1] + self._link(m[2], path, to) + m[3], part) for part in parts[::2]]
        target.write_text("".join(parts), encoding="utf-8")

    def _link(self, link, path, to):
        """A page's link, seen from where the page has gone."""
        name, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not name:
            return link
        found = (path.parent / name).resolve()
        return self._relative(self._place(found), to) + mark + anchor

    def _place(self, found):
        """The place of a file of the repository in the site; what is not in docs/ goes below files/."""
        inside = found.relative_to(ROOT)
        if inside.parts[0] == "docs":
            return inside.relative_to("docs")
        if found.is_dir():
            found = next((found / n for n in ("README.md", "run.py") if (found / n).exists()), None)
            inside = found.relative_to(ROOT)
        if inside not in self.moved:
            # A text is shown by browsers as such if its name says so.
            name = inside if inside.suffix in (".md", ".json", ".png", ".svg") else f"{inside}.txt"
            self.moved[inside] = pathlib.Path("files") / name
            self._todo.append((found, self.moved[inside]))
        return self.moved[inside]

    @staticmethod
    def _relative(place, page):
        up = len(page.parent.parts)
        return "../" * up + place.as_posix()


def gallery(out):
    """A page for each example with its report."""
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "build" / "release" / "python"), str(ROOT / "python")]
    import nkisim
    nkisim.install()
    import common
    import numpy as np

    from nkisim_profile.report import main as report

    folder, rows = out / "gallery", []
    folder.mkdir(parents=True)
    for path in sorted((ROOT / "examples").glob("*.py")):
        if path.stem == "common":
            continue
        case = importlib.import_module(path.stem).cases()[-1]  # of several versions the best
        result, _ = common.run(case, "trn2")
        session = folder / f"{path.stem}.npz"
        result.write(session=session)
        page = folder / f"{path.stem}_report.html"
        assert report([str(session), "-o", str(page), "--title", path.stem]) == 0
        session.unlink()
        shapes = ", ".join(f"{a.dtype} {list(a.shape)}" for a in case.inputs(np.random.default_rng(0))
                           if hasattr(a, "shape"))
        about = (path.read_text().split('"""')[1].strip().splitlines() or [""])[0]
        (folder / f"{path.stem}.md").write_text(
            f"# {path.stem}\n\n{about}\n\n`{case.name}` on trn2, arguments {shapes}: **{result.latency_us:.2f} us**, "
            f"values as NumPy's. {result.confidence['text'] if result.confidence else ''}\n\n"
            f'<iframe class="report" src="../{page.name}" title="The report of {path.stem}"></iframe>\n\n'
            f"[The report alone]({page.name})\n\n```python\n{path.read_text()}```\n")
        rows.append(f"| [{path.stem}]({path.stem}.md) | {about} | {result.latency_us:.2f} us |")
    (folder / "index.md").write_text("# Gallery\n\nThe kernels of `examples/`, simulated on trn2, each with its report."
                                     "\n\n| kernel | | latency |\n|---|---|---|\n" + "\n".join(rows) + "\n")


class _Page(html.parser.HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], {"", "top", "__top"}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and not (tag == "link" and ("rel", "canonical") in attributes):
                self.links.append(value)


def broken(site):
    """(how many links, [page: link that leads nowhere]) of a built site."""
    pages = {p: _Page(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")
             if not p.name.endswith("_report.html")}
    count, wrong = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            count += 1
            to = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            anchor = urllib.parse.unquote(parts.fragment)
            if not to.exists() or anchor and to in pages and anchor not in pages[to].anchors:
                wrong.append(f"{path.relative_to(site)}: {link}")
    return count, wrong


def main(words):
    if len(words) != 2 or words[0] not in ("make", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(words[1]).resolve()
    if words[0] == "make":
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        Pages(folder).make()
        text = subprocess.run([NKISIM, "isa", "--markdown"], capture_output=True, text=True, check=True).stdout
        (folder / "instructions.md").write_text(text)
        gallery(folder)
        return 0
    count, wrong = broken(folder)
    print("\n".join([*wrong, f"site: {count} links, {len(wrong)} broken"]))
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
