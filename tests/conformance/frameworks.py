"""Runs AWS's public PyTorch and JAX scripts and notebooks against nkisim, unmodified, and prints a
table.

    python tests/conformance/frameworks.py --sdk DIR --workshop DIR [--releases v2.20.0,v2.32.0]

--sdk is a clone of aws-neuron/aws-neuron-sdk with its tags: of each release the getting-started
scripts, the tutorials' PyTorch and JAX scripts, and the code blocks of the page on custom operators
in their order. --workshop is a checkout of aws-neuron/build-on-trainium-workshop: its notebooks in
labs/NKI, from the first to the last cell. Needs PyTorch, JAX, nbclient and ipykernel
(scripts/setup --frameworks). Every script runs as `python -m nkisim SCRIPT` in a process of its own.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from run import _environment, _reason

ROOT = Path(__file__).resolve().parents[2]
RELEASES = "v2.20.0,v2.26.0,v2.32.0"

#: Appended to the page's blocks: what their names must hold, by NumPy and the chain rule.
CHECKS = {
    "PyTorch": """
import torch
_a, _b = a.detach().cpu(), b.detach().cpu()
torch.testing.assert_close(out.detach().cpu(), _a * _b * (_a + _b))
torch.testing.assert_close(a.grad.cpu(), 2 * _a * _b + _b * _b)
torch.testing.assert_close(b.grad.cpu(), 2 * _a * _b + _a * _a)
""",
    "JAX": """
import numpy as np
_a, _b = np.asarray(a), np.asarray(b)
np.testing.assert_allclose(c, _a * _b * (_a + _b), rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(grad_a, 2 * _a * _b + _b * _b, rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(grad_b, 2 * _a * _b + _a * _a, rtol=1e-5, atol=1e-5)
"""}


#: Examples that fail anywhere, by release (any: "") and name: why.
MISTAKES = {
    ("v2.20.0", "framework_custom_op.rst, JAX"): "its last block uses x and y, which it never sets",
    ("v2.26.0", "framework_custom_op.rst, JAX"): "its last block uses x and y, which it never sets",
    ("", "layernorm_torch.py"): "imports neuronxcc.nki.docs, a module of no release",
}


def mistake(release, name):
    return MISTAKES.get((release, name)) or MISTAKES.get(("", name))


def run(words, folder, timeout=300):
    """(exit code, output)."""
    path = os.pathsep.join([str(ROOT / "clients" / "profile" / "bin"), str(Path(sys.executable).parent)])
    env = _environment({"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "NKI_SIMULATOR": "1"})
    try:
        done = subprocess.run(words, cwd=folder, env=env, text=True, capture_output=True,
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        return -1, f"more than {timeout} s"
    return done.returncode, done.stdout + done.stderr


def script(path, *words):
    return run([sys.executable, "-m", "nkisim", path.name, *words], path.parent)


def extract(sdk, release, folder):
    """The release's NKI pages and examples, in `folder`; the folder of them."""
    names = subprocess.run(["git", "-C", sdk, "ls-tree", "-r", "--name-only", release],
                           check=True, text=True, capture_output=True).stdout.split()
    wanted = [n for n in names if re.match(r"(general/)?nki/(examples/|.*framework_custom_op.rst)", n)]
    archive = subprocess.run(["git", "-C", sdk, "archive", release, *wanted], check=True,
                             capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
    return Path(folder) / ("general/nki" if (Path(folder) / "general").exists() else "nki")


def getting_started(root):
    """Each prints a 4 x 3 array of twos."""
    for kind in ("baremetal", "torch", "jax"):
        path = root / "examples" / f"getting_started_{kind}.py"
        code, text = script(path)
        twos = re.findall(r"\b2\.", text)
        yield path.name, "passed" if code == 0 and len(twos) == 12 else _reason(text)


def tutorials(root):
    """The tutorials; those that compare with the framework say whether the two match."""
    for path in sorted((root / "examples").glob("*/*_torch.py")) + sorted(
            (root / "examples").glob("*/*_jax.py")):
        code, text = script(path, *(["--nrows", "256", "--ncols", "512"]
                                    if path.name == "layernorm_torch.py" else []))
        good = code == 0 and "match" in text and "differ" not in text
        yield path.name, "passed" if good else _reason(text)


def blocks(text):
    """The indented blocks after `::` that are Python, not listings."""
    for found in re.finditer(r"^::\n\n((?:[ \t]+.*\n|\n)+)", text, re.M):
        code = textwrap.dedent(found[1])
        if not code.lstrip().startswith(("ENTRY", "HloModule")):
            yield code


def page_kernel(root, text):
    """The kernel's file that the page includes: (its kernels, its path)."""
    name = re.search(r"(?:nki_example|literalinclude):: \S*?(\w+/\w+_nki_kernels.py)", text)[1]
    path = root / "examples" / name
    return path.read_text().split("if __name__")[0], path


def custom_operator_page(root):
    """The page's blocks of each framework in one script, after the kernel that the page includes."""
    page = next(root.rglob("framework_custom_op.rst"))
    kernel, path = page_kernel(root, page.read_text())
    for framework, check in CHECKS.items():
        mine = [b for b in blocks(page.read_text())
                if ("jax" in b) == (framework == "JAX") and "os.environ" not in b]
        whole = path.with_name(f"page_{framework}.py")
        whole.write_text("\n".join([kernel, *mine, check]))
        code, text = script(whole)
        yield f"{page.name}, {framework}", "passed" if code == 0 else _reason(text)


def notebook(path, folder):
    """Runs all cells; (exit code, output, whose last line counts what the cells printed)."""
    shutil.copy(path, folder)
    # nbclient in a process of its own, so that its kernel has the environment.
    program = textwrap.dedent(f"""
        import nbformat, nbclient
        book = nbformat.read({path.name!r}, 4)
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
        nbformat.write(book, {path.name!r})
        code = [c for c in book.cells if c.cell_type == "code"]
        said = "".join(o.get("text", "") for c in code for o in c.outputs)
        print("ran", len(code), "cells,", said.count("differ"), "differ,", said.count("match"), "match")
    """)
    code, text = run([sys.executable, "-c", program], folder, 600)
    return code, text


def labs(workshop):
    for path in sorted((workshop / "labs" / "NKI").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            code, text = notebook(path, folder)
            if code:
                yield path.name, _reason(text)
                continue
            cells, differ, match = re.search(r"ran (\d+) cells, (\d+) differ, (\d+) match",
                                             text).groups()
            name = f"{path.name}, {cells} cells" + (f", {match} comparisons" if match != "0" else "")
            yield name, "passed" if differ == "0" else f"{differ} comparisons differ"
            if "Profiling" in path.name:
                yield from captures(Path(folder))


def captures(folder):
    """Does what the profiling lab leaves to its reader: puts the saved file in the place of <path_to_neff>, then views
    what capture saved."""
    for neff in sorted(folder.glob("*.neff")):
        steps = [f"neuron-profile capture -n {neff.name} -s profile.ntff --profile-nth-exec=2",
                 f"neuron-profile view -n {neff.name} -s profile_exec_2.ntff "
                 "--output-format summary-text"]
        results = [run(shlex.split(step), folder) for step in steps]
        name = re.sub(r"\d{6,}", "...", neff.name)
        good = all(code == 0 for code, _ in results) and "total_time" in results[1][1]
        yield f"capture and view {name}", "passed" if good else _reason("".join(
            t for _, t in results))


def table(arguments):
    if arguments.sdk:
        for release in arguments.releases.split(","):
            with tempfile.TemporaryDirectory() as folder:
                root = extract(arguments.sdk, release, folder)
                for group in (getting_started, custom_operator_page, tutorials):
                    for name, result in group(root):
                        yield release, name, result
    if arguments.workshop:
        for name, result in labs(arguments.workshop):
            yield "workshop", name, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sdk", type=Path)
    parser.add_argument("--workshop", type=Path)
    parser.add_argument("--releases", default=RELEASES, help=f"tags; default {RELEASES}")
    rows = []
    print("| from | what | result |\n|---|---|---|")
    for release, name, result in table(parser.parse_args()):
        why = mistake(release, name)
        if result != "passed" and why:
            result = f"AWS's own mistake: {why} ({result})"
        rows.append(result)
        print(f"| {release} | {name} | {result} |", flush=True)
    passed, theirs = (sum(r.startswith(word) for r in rows) for word in ("passed", "AWS's own"))
    print(f"\n{passed} of {len(rows)} passed, {theirs} fail by a mistake of their own")
    return 0 if passed + theirs == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
