#!/usr/bin/env python3
"""Draws docs/images/report_softmax.png: the upper part of the HTML report that `nkisim demo`
writes.

    PATH=build/release:$PATH build/venv/bin/python docs/images/report_softmax.py
"""

import pathlib
import subprocess
import tempfile

OUT = pathlib.Path(__file__).with_suffix(".png")

with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["nkisim", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1050,930",
                    f"--screenshot={OUT}", f"file://{folder}/softmax_report.html"], check=True)
