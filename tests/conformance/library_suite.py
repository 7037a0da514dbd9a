"""Runs nki-library's own tests of some kernels in simulation mode and prints a table.

    python tests/conformance/library_suite.py DIR [--only cumsum] [--sample 5] [--timeout 60]

DIR is a checkout of aws-neuron/nki-library, nkisim must be on the path, and the environment needs
pytest-timeout, torch and what the checkout's README asks for. Tests that the suite itself skips in
simulation, or on the target, are counted apart. Kernels, references and tolerances are its own;
library_plugin.py stands in for what was not published.
"""

import argparse
import collections
import os
import re
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = {
    "cumsum": "core/cumsum/test_cumsum",
    "rope": "core/embeddings/test_rope core/embeddings/test_rope_hf",
    "rmsnorm_tkg": "core/subkernels/test_rmsnorm_tkg",
    "layernorm_tkg": "core/subkernels/test_layernorm_tkg",
    "attention_cte": "core/attention/test_attention_cte core/attention/test_attention_cte_model_config",
    "qkv": "core/qkv/test_qkv_cte core/qkv/test_qkv_cte_model_config core/qkv/test_qkv_tkg",
    "output_projection": "core/output_projection/test_output_proj_cte "
                         "core/output_projection/test_output_proj_cte_model_config "
                         "core/output_projection/test_output_proj_tkg",
    "conv1d": "experimental/conv/test_conv1d",
    "find_nonzero_indices": "core/subkernels/test_find_nonzero_indices",
    "indexed_flatten": "core/subkernels/test_indexed_flatten",
    "cascaded_max": "core/max/test_cascaded_max",
    "dynamic_elementwise_add": "experimental/dynamic_shapes/test_dynamic_elementwise_add",
}


def _environment(root):
    import nkisim

    ours = Path(nkisim.__file__).absolute().parent.parent
    path = os.pathsep.join([str(HERE), str(ours), str(root / "src")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _limit_memory(gigabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))


def run(root, files, args, folder):
    """Runs the tests of some files; returns the test cases of pytest's report."""
    report = Path(folder) / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "library_plugin", "-p",
               "no:cacheprovider", "--test-mode", "simulation", "--force-local-cleanup",
               "--platform-target", args.target, "--sample", str(args.sample), "--timeout",
               str(args.timeout), "--output-directory", f"{folder}/out", "-o",
               f"artifacts_dir={folder}", "--junitxml", str(report),
               *(f"test/integration/nkilib/{name}.py" for name in files)]
    done = subprocess.run(command, cwd=root, env=_environment(root), capture_output=True, text=True,
                          preexec_fn=_limit_memory(args.memory))
    if not report.exists():
        raise SystemExit(done.stdout + done.stderr)
    return list(ElementTree.parse(report).getroot().iter("testcase"))


def _error(text):
    """The line that says why a test failed, with numbers left out so that like ones count as one."""
    if "Timeout" in text:
        return "time limit"
    if re.search(r"allocate|MemoryError", text):
        return "the host's memory limit"
    lines = re.findall(r"^(?:E\s+)?(?:[\w.]*(?:Error|Exception)\b.*)$", text, re.M)
    line = (lines or text.strip().splitlines() or [""])[-1]
    return re.sub(r"\d+", "N", re.sub(r"^E?\s*[\w.]*: ", "", line))[:100]


def summary(name, cases):
    """One row of the table, and the failures' reasons with their counts."""
    skipped = sum(case.find("skipped") is not None for case in cases)
    bad = [case.find(kind) for case in cases for kind in ("failure", "error")
           if case.find(kind) is not None]
    seconds = max((float(case.get("time", 0)) for case in cases), default=0)
    ran = len(cases) - skipped
    reasons = collections.Counter(_error(node.text or "") for node in bad)
    why = "; ".join(f"{n}: {text}" for text, n in reasons.most_common())
    print(f"| {name} | {skipped} | {ran} | {ran - len(bad)} | {len(bad)} | {seconds:.0f} s | {why} |",
          flush=True)
    return [case.get("name") for case in cases
            if case.find("failure") is not None or case.find("error") is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--only", default="", help="the kernels with this text in their name")
    parser.add_argument("--sample", type=int, default=0, help="tests per function; 0 is all")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per test")
    parser.add_argument("--memory", type=int, default=12, help="GiB of address space")
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--failures", action="store_true", help="list the failed tests")
    args = parser.parse_args()
    print("| kernel | skipped by the suite | run | passed | failed | longest | why |\n"
          "|---|---:|---:|---:|---:|---:|---|", flush=True)
    failed = []
    for name, files in KERNELS.items():
        if args.only in name:
            with tempfile.TemporaryDirectory() as folder:
                failed += summary(name, run(args.library, files.split(), args, folder))
    if args.failures:
        print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
