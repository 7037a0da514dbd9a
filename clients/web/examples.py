"""Copies the example programs with their sources, data and expected outputs next to the browser
page, and lists them.

usage: python3 clients/web/examples.py SITE
"""

import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def example(trace, site):
    """A row of the page's list; its files are copied."""
    expect = json.loads((ROOT / "traces" / "expect.json").read_text())[trace.stem]
    with trace.open() as lines:
        about = json.loads(next(lines))["about"]
    data = (trace, trace.with_suffix(".npz"), ROOT / "traces" / "kernels" / f"{trace.stem}.py")
    files = [path.relative_to(ROOT) for path in data if path.exists()]
    for path in files:
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, site / path)
    name = str(trace.relative_to(ROOT))
    return {"name": trace.stem, "about": about, "trace": name, "files": [str(path) for path in files],
            "words": ["--expect", str(pathlib.Path(name).with_suffix(".npz")), "--rtol", str(expect["rtol"]),
                      "--atol", str(expect["atol"])]}


def main(site):
    rows = [example(trace, site) for trace in sorted((ROOT / "traces").glob("*.jsonl"))]
    rows.sort(key=lambda row: row["name"] != "softmax")  # it comes first
    (site / "examples.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
