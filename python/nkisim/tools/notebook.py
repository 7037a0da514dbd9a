"""Implements the notebook magic %%nkisim, which shows the simulated time of the kernels of a cell.

    %load_ext nkisim
    %%nkisim                    # a line for each kernel: runs, microseconds, seconds on the host
    %%nkisim profile            # and the timeline of the costliest
    %%nkisim report             # and the whole report of the costliest, as `nkisim run --html` writes it
    %%nkisim compare            # next to the previous cell under %%nkisim
    %%nkisim --target trn3      # on another generation

A bar counts the kernels while the cell runs, where tqdm is installed.
"""

import argparse
import html
import os
import shlex
import tempfile
import time

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.display import display


from ..record.targets import resolve_target
from ..run.session import LISTENERS
from ..values.errors import Error

SHOWN = 3  # timelines under `profile`
PAGE_PIXELS = 780  # height of a report


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"%%nkisim: {message}")


def _options(line):
    parser = _Parser(prog="%%nkisim", add_help=False)
    parser.add_argument("what", nargs="?", choices=("time", "profile", "report", "compare"), default="time")
    parser.add_argument("--target", type=str, default=None)
    return parser.parse_args(shlex.split(line))


class _Watch:
    """Collects the results of a cell and moves the bar."""

    def __init__(self, expected):
        self.kernels = {}  # name -> [runs, ns, the last result, seconds on the host]
        self.bar = _bar(expected)

    def __call__(self, result):
        entry = self.kernels.setdefault(result.name, [0, 0.0, None, 0.0])
        entry[0] += 1
        entry[1] += result.latency_ns or 0.0
        entry[2] = result
        entry[3] += result.record_seconds + result.run_seconds
        if self.bar is not None:
            self.bar.set_postfix_str(result.name, refresh=False)
            self.bar.update()

    def __enter__(self):
        LISTENERS.append(self)
        return self

    def __exit__(self, *_):
        LISTENERS.remove(self)
        if self.bar is not None:
            self.bar.close()

    @property
    def runs(self):
        return sum(entry[0] for entry in self.kernels.values())


def _bar(expected):
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=expected, unit="kernel", leave=False, delay=1)


def _change(before, now):
    return f"{100 * (now - before) / before:+.1f} %" if before else "new"


def rows(kernels, previous=None):
    """The cell's kernels as rows of text, a head first and the costliest next; next to those of
    `previous` if given."""
    out = [["kernel", "runs", "us each", "us", "host s"]]
    out[0] += ["us each before", "change"] if previous is not None else []
    for name in sorted(kernels, key=lambda n: -kernels[n][1]):
        runs, ns, _, seconds = kernels[name]
        row = [name, str(runs), f"{ns / runs / 1e3:.3f}", f"{ns / 1e3:.3f}", f"{seconds:.2f}"]
        if previous is not None:
            count, before = previous.get(name, (1, 0.0))[:2]
            row += [f"{before / count / 1e3:.3f}" if before else "",
                    _change(before / count, ns / runs)]
        out.append(row)
    for name, (count, before) in (previous or {}).items():
        if name not in kernels:
            out.append([name, "0", "", "", "", f"{before / count / 1e3:.3f}", "gone"])
    return out


def page(result):
    """The report of a run as a frame of its own: it has scripts, which see nothing of the notebook."""
    from nkisim_profile.session import BadSession

    with tempfile.TemporaryDirectory(prefix="nkisim-") as folder:
        out = os.path.join(folder, "report.html")
        files, result.files = result.files, {}
        result.recorder.print = lambda line: None  # what the kernel prints has been printed
        try:
            result.write(html=out)
        except BadSession as problem:
            return f"<p>{html.escape(str(problem))}</p>"
        finally:
            del result.recorder.print
            result.files = files
        with open(out, encoding="utf-8") as file:
            text = html.escape(file.read(), quote=True)
    return (f'<iframe sandbox="allow-scripts" title="{html.escape(result.name)}" srcdoc="{text}" '
            f'style="width:100%;height:{PAGE_PIXELS}px;border:1px solid #8888;background:#fff"></iframe>')


class Shown:
    """The result of a cell: HTML for notebooks, text for terminals."""

    def __init__(self, line, table=(), pictures=()):
        self.line, self.table, self.pictures = line, table, pictures

    def __repr__(self):
        widths = [max(map(len, column)) for column in zip(*self.table)]
        lines = ["  ".join(cell.rjust(w) if i else cell.ljust(w)
                           for i, (cell, w) in enumerate(zip(row, widths))) for row in self.table]
        return "\n".join([self.line, *lines])

    def _repr_html_(self):
        body = ""
        for number, row in enumerate(self.table):
            tag = "td" if number else "th"
            body += "<tr>" + "".join(
                f'<{tag} style="text-align:{"right" if i else "left"}">{html.escape(cell)}</{tag}>'
                for i, cell in enumerate(row)) + "</tr>"
        return (f'<div class="nkisim"><p><b>{html.escape(self.line)}</b></p><table>{body}</table>'
                f'{"".join(self.pictures)}</div>')


@magics_class
class NkisimMagics(Magics):
    """%%nkisim; remembers the last cell's kernels for `compare`."""

    previous = None

    @cell_magic
    def nkisim(self, line, cell):
        options = _options(line)
        if options.what == "compare" and self.previous is None:
            raise UsageError("%%nkisim compare: no cell ran under %%nkisim before")
        before = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
        if options.target is not None:
            try:
                os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = resolve_target(options.target)
            except Error as problem:
                raise UsageError(f"%%nkisim: {problem}") from None
        begin = time.perf_counter()
        try:
            with _Watch(sum(e[0] for e in (self.previous or {}).values()) or None) as watch:
                done = self.shell.run_cell(cell)
        finally:
            if options.target is not None:
                _restore("NEURON_PLATFORM_TARGET_OVERRIDE", before)
        if not done.success:
            return  # the cell has said why
        self._show(watch, options.what, time.perf_counter() - begin)
        self.previous = {n: tuple(e[:2]) for n, e in watch.kernels.items()}

    def _show(self, watch, what, seconds):
        if not watch.kernels:
            display(Shown("no kernel ran in this cell"))
            return
        total = sum(e[1] for e in watch.kernels.values()) / 1e3
        pictures = ()
        if what == "profile":
            costliest = sorted(watch.kernels.values(), key=lambda e: -e[1])[:SHOWN]
            pictures = [e[2]._repr_html_() or "" for e in costliest]
        elif what == "report":
            pictures = [page(max(watch.kernels.values(), key=lambda e: e[1])[2])]
        display(Shown(f"{watch.runs} kernel runs, {total:.3f} us simulated, {seconds:.2f} s on the host",
                      rows(watch.kernels, self.previous if what == "compare" else None), pictures))


def _restore(name, value):
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def load(shell):
    shell.register_magics(NkisimMagics)
