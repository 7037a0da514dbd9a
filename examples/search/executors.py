"""Runs one kernel search on threads or processes, and by the same line on MPI, Ray or Dask.

    python examples/search/executors.py threads|processes [--cache FOLDER] [--most N]
"""

import argparse
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import nkisim
from variants import variants

HERE = Path(__file__).parent
#: mpi4py: MPIPoolExecutor(); Dask: Client(...).get_executor(); Ray: any pool with submit(function, *arguments).
EXECUTORS = {"threads": lambda: ThreadPoolExecutor(2),
             "processes": lambda: ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("on", choices=EXECUTORS)
    parser.add_argument("--cache")
    parser.add_argument("--most", type=int)
    args = parser.parse_args()
    proposals = itertools.islice(variants(), args.most)
    with EXECUTORS[args.on]() as executor:
        records = list(nkisim.evaluate(HERE / "reference.py", proposals, executor=executor, cache=args.cache,
                                       target="trn2"))
    for record in sorted(records, key=lambda r: (r["latency_us"] or 1e9, r["id"])):
        latency = f"{record['latency_us']:.3f} us" if record["latency_us"] else ""
        print(f"{record['status']:8} {latency:>12}  {record['id']}")


if __name__ == "__main__":
    main()
