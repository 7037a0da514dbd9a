#!/usr/bin/env python3
"""Times one tiled float32 matmul in nkisim and in other tools (triton-viz, SCALE-Sim, NumPy), in
processor seconds.

    python3 -m venv build/compared
    build/compared/bin/pip install triton-viz torch 'triton<3.6' scalesim 'numpy<2.3' 'pandas<3' ml_dtypes matplotlib
    build/compared/bin/python bench/beside.py [--sizes 512 1024 2048] [--repeat 3] [--plot FILE.png]

- nkisim: the kernel called, compiled, simulated with values and with timing;
- triton-viz's interpreter of NKI (Python package triton-viz): values alone. It imports AWS's package, in whose place
  nkisim's stands here; loads, products and stores are its own functions, with no client that looks at them;
- SCALE-Sim v3 (Python package scalesim): time alone, of the same product on a 128 x 128 array;
- NumPy's sgemm: the product alone.

What does not install is left out by name. Outputs are compared with NumPy's.
"""
import argparse
import contextlib
import inspect
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import types

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NKISIM_THREADS"):
    os.environ[name] = "1"
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "build/release/python"), str(ROOT / "python")]

import numpy as np  # noqa: E402

import nkisim  # noqa: E402

nkisim.install()
import neuronxcc.nki.language as nl  # noqa: E402


def matmul(a_t, b, out):
    """out = a_t.T @ b, in tiles of 128 x 512; what triton-viz's interpreter takes as well."""
    k, m = a_t.shape
    n = b.shape[1]
    for i in nl.affine_range(m // 128):
        for j in nl.affine_range(n // 512):
            acc = nl.zeros((nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for c in nl.affine_range(k // 128):
                lhs = nl.load(a_t[c * 128:(c + 1) * 128, i * 128:(i + 1) * 128])
                rhs = nl.load(b[c * 128:(c + 1) * 128, j * 512:(j + 1) * 512])
                acc += nl.matmul(lhs, rhs, transpose_x=True)
            nl.store(out[i * 128:(i + 1) * 128, j * 512:(j + 1) * 512], acc)


def by_nkisim(a_t, b):
    from neuronxcc import nki

    @nki.jit
    def kernel(a_t, b):
        out = nl.ndarray((a_t.shape[1], b.shape[1]), a_t.dtype, buffer=nl.shared_hbm)
        matmul(a_t, b, out)
        return out

    return lambda: nkisim.run(kernel, a_t, b, target="trn2").outputs


def by_triton_viz(a_t, b):
    from triton_viz.core import nki as interpreter
    from triton_viz.transformers.nki_extract_slice import transform_code
    builder, out = interpreter.nki_builder, np.zeros((a_t.shape[1], b.shape[1]), np.float32)
    language = types.SimpleNamespace(
        float32=np.float32, psum=None, par_dim=lambda n: n, affine_range=builder.range, zeros=builder.zeros,
        matmul=builder.matmul, masked_load=builder.masked_load, masked_store=builder.masked_store)
    space = {"nl": language}
    exec(compile(transform_code(inspect.getsource(matmul)), "matmul", "exec"), space)

    def run():
        space["matmul"](*(interpreter.NDArray(value=x) for x in (a_t, b, out)))
        return out

    return run


def by_scalesim(a_t, b):
    from scalesim.scale_sim import scalesim
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "config.cfg").write_text(SCALESIM, encoding="utf-8")
    (folder / "gemm.csv").write_text(f"Layer,M,N,K,\nproduct,{a_t.shape[1]},{b.shape[1]},{a_t.shape[0]},\n")
    (folder / "layout.csv").write_text(LAYOUT, encoding="utf-8")

    def run():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            scalesim(save_disk_space=True, verbose=False, config=str(folder / "config.cfg"),
                     topology=str(folder / "gemm.csv"), layout=str(folder / "layout.csv"),
                     input_type_gemm=True).run_scale(top_path=str(folder))

    return run


SCALESIM = """[general]
run_name = product
[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 8192
FilterSramSzkB: 8192
OfmapSramSzkB: 8192
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 256
Dataflow: ws
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""
LAYOUT = "Layer,\n"
TOOLS = {"nkisim": by_nkisim, "triton-viz": by_triton_viz, "SCALE-Sim v3": by_scalesim,
         "sgemm": lambda a_t, b: lambda: a_t.T @ b}


def measured(size, repeat, tools):
    """Processor seconds of each tool, the least of `repeat` alternating runs; a text where one fails."""
    rng = np.random.default_rng(0)
    a_t, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    expected, seconds, runs = a_t.T @ b, {}, {}
    for name in tools:
        try:
            runs[name] = TOOLS[name](a_t, b)
        except ImportError as error:
            seconds[name] = f"not installed ({error})"
    for _ in range(repeat):
        for name in list(runs):
            start = time.process_time()
            try:
                out = runs[name]()
            except Exception as error:  # another's program: reported, and left out
                seconds[name] = f"failed: {type(error).__name__}: {error}"
                del runs[name]
                continue
            took = time.process_time() - start
            seconds[name] = min(took, seconds.get(name, took))
            if out is not None:
                np.testing.assert_allclose(out, expected, 1e-3, 1e-3 * np.sqrt(size))
    return seconds


def plot(rows, file):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(6, 4))
    for name in TOOLS:
        points = [(size, row[name]) for size, row in rows.items() if isinstance(row.get(name), float)]
        if points:
            axes.loglog(*zip(*points), marker="o", label=name)
    axes.set(xlabel="matmul of n x n x n, float32", ylabel="processor seconds")
    axes.set_xticks(list(rows), [str(n) for n in rows])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(file, dpi=120, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--plot", metavar="FILE.png")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {size: measured(size, args.repeat, args.tools) for size in args.sizes}
    if args.json:
        print(json.dumps(rows))
    else:
        print(f"{'size':6}" + "".join(f"{name:>16}" for name in args.tools))
        for size, row in rows.items():
            print(f"{size:<6}" + "".join(f"{row[n]:14.3f} s" if isinstance(row[n], float) else f"{'-':>16}"
                                         for n in args.tools))
        for name, why in {n: w for row in rows.values() for n, w in row.items() if isinstance(w, str)}.items():
            print(f"{name}: {why}")
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
