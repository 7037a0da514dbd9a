#!/usr/bin/env python3
"""Measures nkisim's own speed: reading, compiling, simulating without values, memory, profiles, a
large matmul, single instructions; and how the time of each stage grows with the program's size.

Everything a ratio is made of is measured here, in one run, on the same processors. Times are
processor time with one thread (a busy machine would distort the wall clock's), else elapsed time.
Needs build/release (scripts/build) and NumPy with OpenBLAS. --json appends the ratios to a history,
which page.py draws.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
clock = time.process_time  # perf_counter with --threads above 1
RATIOS = {}  # of this run by their names: what --json writes


def stages(build, what, trace):
    """The output of nkisim_stages, by stage, with "seconds" as this run counts them."""
    out = subprocess.run([build / "bench/nkisim_stages", what, trace], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    clock_name = "cpu" if clock is time.process_time else "wall"
    return {row["stage"]: {**row, "seconds": row[clock_name]}
            for row in map(json.loads, out.splitlines())}


def best(runs, stage):
    return min((run[stage] for run in runs), key=lambda row: row["seconds"])


def rate(row):
    return row["instructions"] / row["seconds"]


def bench_reading(build, trace, repeat):
    runs = [stages(build, "read", trace) for _ in range(repeat)]
    row = best(runs, "read")
    mib = os.path.getsize(trace) / 2 ** 20
    lines = trace.read_text(encoding="utf-8").splitlines()[:100_000]
    start = clock()
    for line in lines:
        json.loads(line)
    baseline = len(lines) / (clock() - start)
    print(f"read       {row['instructions']:,} instructions, {mib:.0f} MiB of JSON Lines: "
          f"{row['seconds']:.2f} s, {rate(row):,.0f} instructions/s, "
          f"{mib / row['seconds']:.0f} MiB/s, peak memory {row['peak_mib']:.0f} MiB")
    print(f"           Python's json.loads alone: {baseline:,.0f} lines/s; "
          f"ratio {rate(row) / baseline:.1f}")
    RATIOS["read: json.loads"] = rate(row) / baseline


def bench_timing(build, trace, repeat):
    runs = [stages(build, "time", trace) for _ in range(repeat)]
    row = best(runs, "time")
    print(f"time       {row['instructions']:,} instructions, timing only, one core: "
          f"{row['seconds']:.2f} s, {rate(row):,.0f} instructions/s, "
          f"peak memory {row['peak_mib']:.0f} MiB (program included); "
          f"ratio to its own reading {rate(row) / rate(best(runs, 'read')):.2f}")
    RATIOS["time: reading"] = rate(row) / rate(best(runs, "read"))


def bench_compiling(build, folder, instructions, repeat):
    kernel = folder / "kernel.jsonl"
    subprocess.run([sys.executable, ROOT / "bench/kernel.py", kernel, str(instructions)], check=True)
    runs = [stages(build, "compile", kernel) for _ in range(repeat)]
    row = best(runs, "compile")
    passes = sorted((best(runs, stage)["seconds"], stage.removeprefix("pass "))
                    for stage in runs[0] if stage.startswith("pass "))
    print(f"compile    {row['instructions']:,} instructions as recorded, all defaults: "
          f"{row['seconds']:.2f} s, {rate(row):,.0f} instructions/s, "
          f"peak memory {row['peak_mib']:.0f} MiB")
    RATIOS["compile: reading"] = rate(row) / rate(best(runs, "read"))
    print("           of that " + ", ".join(f"{name} {seconds:.2f} s"
                                            for seconds, name in passes[:-6:-1]))


SIZES = (4, 2, 1)  # of the program, as parts of the largest
RANKS = 4096  # the most that are simulated one by one


def bench_growth(build, folder, instructions, repeat):
    """The exponent e of time ~ instructions ** e, by least squares over three sizes."""
    seconds = {}
    for part in SIZES:
        count = instructions // part
        for script, what in (("million.py", "time"), ("kernel.py", "compile")):
            trace = folder / "growth.jsonl"
            subprocess.run([sys.executable, ROOT / "bench" / script, trace, str(count)], check=True)
            runs = [stages(build, what, trace) for _ in range(repeat)]
            for stage in runs[0]:
                if stage != "read" or what == "time":
                    seconds.setdefault(stage, []).append(best(runs, stage)["seconds"])
        trace = folder / "growth.jsonl"
        subprocess.run([sys.executable, ROOT / "bench/million.py", trace, str(count)], check=True)
        for name, words in PROFILES.items():
            runs = [measured([build / "nkisim", "run", trace, "--timing-only", "-q", *words], folder)
                    for _ in range(repeat)]
            seconds.setdefault(f"run, {name}", []).append(min(cpu for _, cpu, _ in runs))
        runs = [measured([build / "nkisim", "run", ROOT / "traces/softmax.jsonl", "--ranks", str(RANKS // part),
                          "--no-fold", "--timing-only", "-q"], folder) for _ in range(repeat)]
        seconds.setdefault(f"{RANKS:,} ranks", []).append(min(cpu for _, cpu, _ in runs))
    print(f"growth     processor s of {', '.join(f'{instructions // p:,}' for p in SIZES)} "
          "instructions, and the exponent")
    for stage, times in seconds.items():
        if times[-1] >= 0.02:  # below, the clock decides
            print(f"           {stage:20}" + "".join(f"{t:9.3f}" for t in times)
                  + f"{exponent(times):8.2f}")
            RATIOS[f"growth of {stage}: exponent"] = exponent(times)


def exponent(times):
    """The slope of log(time) over log(instructions), by least squares."""
    x = [math.log(1 / part) for part in SIZES]
    y = [math.log(max(t, 1e-6)) for t in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return (sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
            / sum((a - mean_x) ** 2 for a in x))


PROFILES = {"summary only": [], "session": ["--session", "s.npz"],
            "Perfetto": ["--perfetto", "k.pftrace"], "Chrome": ["--chrome", "k.json"],
            "accounting": ["--accounting-json", "a.json"],
            "all four": ["--session", "s.npz", "--perfetto", "k.pftrace", "--chrome", "k.json",
                         "--accounting-json", "a.json"],
            "explain": ["--explain"], "HTML": ["--html", "r.html"]}


def measured(command, cwd):
    """Elapsed and processor seconds of a command with its children, and its peak memory in MiB."""
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return (time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def bench_profile(build, folder, instructions, repeat):
    trace = folder / "profile.jsonl"
    subprocess.run([sys.executable, ROOT / "bench/million.py", trace, str(instructions)], check=True)
    print(f"profile    {instructions:,} instructions, timing only; what reports add to the run:\n"
          "           report          processor s   elapsed s   peak MiB")
    base = None
    for name, words in PROFILES.items():
        runs = [measured([build / "nkisim", "run", trace, "--timing-only", "-q", *words], folder)
                for _ in range(repeat)]
        wall, cpu, memory = (min(column) for column in zip(*runs))
        base = base or (wall, cpu)
        print(f"           {name:14}{cpu - (base[1] if words else 0):12.2f}"
              f"{wall - (base[0] if words else 0):12.2f}{memory:11.0f}")
        if words:
            RATIOS[f"{name}: its run"] = (cpu - base[1]) / base[1]


def sgemm(size, repeat):
    """Best seconds of a float32 product of that size; NumPy must be imported under the limits."""
    import numpy as np
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    a @ b
    times = []
    for _ in range(repeat):
        start = clock()
        a @ b
        times.append(clock() - start)
    return min(times)


def in_python(build, *words):
    """The output of a script of this folder with the built package."""
    paths = [str(build / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run([sys.executable, *words], check=True, cwd=ROOT / "bench", text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}).stdout


def bench_memory(build):
    """The memory that kernels from Python take for each instruction (memory.py)."""
    print(text := in_python(build, "memory.py"), end="")
    for line in text.splitlines()[1:]:
        name, numbers = line[11:53].strip(), line[53:].split()
        RATIOS[f"{name}: bytes an instruction, compiled"] = float(numbers[2])


def bench_recording(build):
    """The speed of recording, and the cost of a launch (recording.py)."""
    line = '{"i": "dma_copy", "dst": "x", "src": "y"}'
    baseline = timeit.timeit(lambda: json.loads(line), number=100_000) / 100_000
    print(text := in_python(build, "recording.py"), end="")
    for line in text.splitlines():
        name, number = line.split()[:2]
        ours = float(number) * 1e-3 if name == "launch" else 1 / float(number.replace(",", ""))
        RATIOS[f"record {name}: json.loads of a short line"] = ours / baseline


def bench_matmul(build, folder, repeat, threads):
    subprocess.run([sys.executable, ROOT / "traces/make.py", "matmul_2048", "--out", folder],
                   check=True)
    # Runs alternate, so that a busy moment of the machine hits both.
    runs, blas = [], []
    for _ in range(repeat):
        runs.append(stages(build, "interpret", folder / "matmul_2048.jsonl"))
        blas.append(sgemm(2048, 2))
    row, reference = best(runs, "interpret"), min(blas)
    print(f"functional 2048^3 bf16 matmul trace ({row['instructions']:,} instructions): "
          f"{row['seconds']:.3f} s; one OpenBLAS sgemm of that size on the same "
          f"{threads} thread(s): {reference:.3f} s; ratio {row['seconds'] / reference:.2f}")
    RATIOS["matmul: sgemm"] = row["seconds"] / reference


def bench_ops(build, folder, repeat):
    sys.path.insert(0, str(ROOT / "bench"))
    import ops
    loops = 1000
    print("one [128, 512] tile (transpose: 128 x 128)   nkisim us   NumPy us   ratio")
    for name in ops.OPS:
        trace = folder / f"{name}.jsonl"
        ops.write(trace, name, loops)
        ours = best([stages(build, "interpret", trace) for _ in range(repeat)], "interpret")
        ours_us = ours["seconds"] / loops * 1e6
        call = ops.numpy_call(name)
        if call is None:
            print(f"{name:44} {ours_us:9.1f}          -       -")
            continue
        theirs_us = min(timeit.repeat(call, timer=clock, number=100, repeat=repeat)) / 100 * 1e6
        print(f"{name:44} {ours_us:9.1f}  {theirs_us:9.1f}  {ours_us / theirs_us:6.2f}")
        RATIOS[f"{name}: NumPy"] = ours_us / theirs_us


ALL = ("read", "compile", "time", "memory", "record", "profile", "growth", "matmul", "ops")


def add_to_history(path):
    """A line of JSON: the commit, when, and its ratios."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    ratios = {name: round(value, 4) for name, value in RATIOS.items()}
    row = {"commit": commit, "when": time.strftime("%Y-%m-%d %H:%M"), "ratios": ratios}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*",
                        help=f"{', '.join(ALL)} (default: all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="best of how many")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="append the ratios to this history")
    args = parser.parse_args()
    global clock
    if args.threads > 1:
        clock = time.perf_counter
    # Build everything first: the default targets leave nkisim_stages as it was built last.
    subprocess.run(["ninja", "--quiet", "-C", args.build, "all", "nkisim_stages"], check=True,
                   stdout=subprocess.DEVNULL)
    what = args.what or ALL
    os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        trace = folder / "million.jsonl"
        if {"read", "time"} & set(what):
            subprocess.run([sys.executable, ROOT / "bench/million.py", trace,
                            str(args.instructions)], check=True)
        if "read" in what:
            bench_reading(args.build, trace, args.repeat)
        if "compile" in what:
            bench_compiling(args.build, folder, args.instructions, args.repeat)
        if "time" in what:
            bench_timing(args.build, trace, args.repeat)
        if "memory" in what:
            bench_memory(args.build)
        if "record" in what:
            bench_recording(args.build)
        if "profile" in what:
            bench_profile(args.build, folder, args.instructions // 4, args.repeat)
        if "growth" in what:
            bench_growth(args.build, folder, args.instructions // 4, args.repeat)
        if "matmul" in what:
            bench_matmul(args.build, folder, args.repeat, args.threads)
        if "ops" in what:
            bench_ops(args.build, folder, args.repeat)
    if args.json:
        add_to_history(args.json)


if __name__ == "__main__":
    main()
