"""Tests the page that bench/page.py draws of a history of ratios."""
import json
import re
import subprocess
import sys

import pytest

from running import ROOT

pytestmark = pytest.mark.process
ROWS = [{"commit": "a1", "when": "2026-01-01", "ratios": {"read: json.loads": 2.0, "<b>: 1": 1.0}},
        {"commit": "b2", "when": "2026-01-02", "ratios": {"read: json.loads": 1.0}}]


def page(folder, text):
    (folder / "h.jsonl").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, ROOT / "bench/page.py", folder / "h.jsonl", "-o", folder / "p.html"],
                          capture_output=True, text=True, check=False)


def test_a_curve_for_each_ratio(tmp_path):
    assert page(tmp_path, "".join(json.dumps(row) + "\n" for row in ROWS)).returncode == 0
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 2 and text.count("<circle") == 3 and "<figcaption>&lt;b&gt;" in text
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', text)][:2]  # the largest on top, 1 half way down
    assert heights == [6, 30]


@pytest.mark.parametrize("text, said", [
    ("", "has no lines"), ("{}\n", "h.jsonl:1: KeyError"), (json.dumps(ROWS[0]) + "\n[1]\n", "h.jsonl:2: TypeError"),
    ("x\n", "h.jsonl:1: JSONDecodeError")])
def test_a_history_that_is_none(tmp_path, text, said):
    done = page(tmp_path, text)
    assert done.returncode == 3 and said in done.stderr and not (tmp_path / "p.html").exists()
