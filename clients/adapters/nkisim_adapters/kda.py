"""Implements verify.py of KDA for Trainium (Jerry2423/kda-for-trainium), which tests and times a
kernel, by simulation.

    python -m nkisim_adapters.kda --op silu --candidate kernel.py --fast --timeout 900

Prints one JSON object with passed, latency_ms, error and summary_metrics and ends with 0 if the
kernel passed, else 1. The task of an operator is TASKS/OP.py, TASKS/OP_*.py or, if that is not
unique, the path given by --task; TASKS is --tasks or $KDA_TASKS. --fast compares on the first seed
alone (and on one that follows from the kernel's text).
"""

import argparse
import json
import os
import pathlib
import sys

from nkisim_evaluate import BadReference, Evaluator, Reference, Settings
from nkisim_adapters.summary import slowest


def task(op, folder):
    """The task file of an operator."""
    found = [p for p in (pathlib.Path(folder) / f"{op}.py",) if p.is_file()]
    found = found or sorted(pathlib.Path(folder).glob(f"{op}_*.py"))
    if len(found) != 1:
        raise BadReference(f"{len(found)} tasks for {op} in {folder}; one, or --task, is required")
    return found[0]


def verify(path, candidate, fast=False, **settings):
    """{"passed", "latency_ms", "error", "summary_metrics"} of a candidate's file."""
    if fast:
        settings["seeds"] = Reference(path).seeds[:1]
    with Evaluator(Settings(path, **settings), 1) as evaluator:
        record = evaluator.evaluate({"id": candidate, "path": candidate})
    passed = record["status"] == "ok"
    error = None if passed else f"{record['status']}: {record.get('error', {}).get('message', '')}"
    return {"passed": passed, "latency_ms": record["latency_us"] / 1e3 if passed else None,
            "error": error, "summary_metrics": slowest(record.get("summary") or {})}


def main(words=None):
    parser = argparse.ArgumentParser(prog="verify.py", description="Verifies a candidate kernel.")
    parser.add_argument("--op", required=True)
    parser.add_argument("--candidate", required=True)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--tasks", default=os.environ.get("KDA_TASKS", "."))
    parser.add_argument("--task")
    parser.add_argument("--target", default="trn1")
    args = parser.parse_args(words)
    try:
        said = verify(args.task or task(args.op, args.tasks), args.candidate, args.fast,
                      target=args.target, timeout=args.timeout)
    except BadReference as problem:
        said = {"passed": False, "latency_ms": None, "error": str(problem), "summary_metrics": {}}
    print(json.dumps(said))
    return 0 if said["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
