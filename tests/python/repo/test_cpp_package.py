"""Tests the C++ package: `cmake --install`, and examples/cpp and examples/systemc built against the installed files.

Skipped where the program of the tests is not that of a CMake build folder.
"""

import os
import pathlib
import re
import shutil

import pytest

from running import PROGRAM, ROOT, run

pytestmark = pytest.mark.process
BUILD = pathlib.Path(PROGRAM).parent
EXAMPLE = ROOT / "examples" / "cpp"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "nkisimConfig.cmake").exists() or not shutil.which("cmake"):
        pytest.skip("no build folder with the C++ package")
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def check(said):
    """Checks the example's output: three DMA transfers and an addition, in that order."""
    spans = [(float(a), float(b), what)
             for a, b, what in re.findall(r"([0-9.]+) to +([0-9.]+) ns +(.+)", said)]
    data = [s for s in spans if s[2] == "data of dma_copy"]
    addition, = [s for s in spans if s[2] == "tensor_tensor on vector"]
    assert len(data) == 3 and all(start < end for start, end, _ in spans)
    assert max(data[0][1], data[1][1]) <= addition[0] and addition[1] <= data[2][0]
    latency = float(re.search(r"latency ([0-9.]+) us", said)[1])
    assert latency * 1000 >= data[2][1]
    assert f"all {128 * 512} sums are right" in said


def test_the_example_builds_against_the_installed_package(prefix, tmp_path):
    run("cmake", "-S", EXAMPLE, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert f"nkisim_DIR:PATH={prefix}" in (tmp_path / "CMakeCache.txt").read_text()
    run("cmake", "--build", tmp_path)
    check(run(tmp_path / "add_tiles").stdout)


def test_the_example_includes_the_public_header_alone():
    for source in EXAMPLE.glob("*.cpp"):
        found = re.findall(r'#include [<"]([^>"]+)[>"]', source.read_text())
        assert "nkisim/nkisim.hpp" in found and [f for f in found if "/" in f or "." in f] == ["nkisim/nkisim.hpp"]


@pytest.fixture(scope="module")
def host(prefix, tmp_path_factory):
    """A SystemC program with a model of its own, which also runs kernels."""
    folder = tmp_path_factory.mktemp("host")
    run("cmake", "-S", ROOT / "tests/support/systemc_host", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder)
    return folder / "host"


# A memset of [128, 64] FP32 on trn2 takes as long wherever it is run, whatever the model's resolution.
@pytest.mark.parametrize("resolution", ["1", "1000"])
@pytest.mark.parametrize("where", ["before", "constructor", "elaborated", "between", "thread", "method", "after",
                                   "reports"])
def test_a_kernel_runs_in_a_systemc_program(host, where, resolution):
    lines = run(host, where, resolution).stdout.splitlines()
    assert lines[-1] == "ok"
    kernels = [line for line in lines if line.startswith("kernel ")]
    assert kernels == [kernels[0]] * (2 if where == "thread" else 1)
    alone = run(host, "before").stdout.splitlines()
    assert kernels[0] in alone


def test_a_host_has_chips_as_modules_and_rewires_one(prefix, tmp_path):
    """examples/systemc: one chip with a memory as the model's, and one rewired."""
    source = ROOT / "examples" / "systemc"
    assert len((source / "rewired.cpp").read_text(encoding="utf-8").splitlines()) < 150
    run("cmake", "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    said = run(tmp_path / "rewired").stdout
    alone, hosted, rewired = (float(ns) for ns in re.findall(r"([0-9.]+) ns", said))
    assert hosted == pytest.approx(alone, rel=1e-3)
    moved = 2 * 128 * 4096 * 4  # bytes: x is loaded, y stored
    assert f"2 transfers, {moved} bytes" in said
    # 100 bytes per ns, 80 ns at the end of each transfer, and 1000 ns of the vector engine's.
    least = moved / 100 + 2 * 80 + 1000
    assert least < rewired < least + alone


def test_every_header_compiles_alone(prefix, tmp_path):
    """... of those that say what a folder offers; the public one needs the standard library only."""
    folder = prefix / "include" / "nkisim"
    public = folder / "nkisim" / "nkisim.hpp"
    assert not re.findall(r'#include "', public.read_text())
    run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-x", "c++", public)
    headers = [p.relative_to(folder) for p in sorted(folder.glob("src/*/*.hpp")) if p.stem == p.parent.name]
    assert len(headers) >= 6 and not (folder / "src" / "cli").exists()
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{p}"\n' for p in headers))
    run("c++", "-std=c++20", "-fsyntax-only", "-Wall", f"-I{folder}", source)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_pkg_config_names_what_the_example_needs(prefix, tmp_path):
    config, = prefix.rglob("nkisim.pc")
    flags = run("pkg-config", "--cflags", "--libs", "nkisim",
                env={**os.environ, "PKG_CONFIG_PATH": str(config.parent)}).stdout.split()
    run("c++", EXAMPLE / "add_tiles.cpp", "-o", tmp_path / "add_tiles", *flags)
    check(run(tmp_path / "add_tiles").stdout)


def test_the_installed_program_and_its_completion(prefix):
    assert run(prefix / "bin" / "nkisim", "--version").stdout.startswith("nkisim ")
    script = prefix / "share" / "bash-completion" / "completions" / "nkisim"
    words = run("bash", "-c", f"source {script}; COMP_WORDS=(nkisim conf); COMP_CWORD=1; _nkisim; "
                              "echo ${COMPREPLY[@]}").stdout.split()
    assert words == ["config"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_completes_at_the_first_key(prefix, tmp_path):
    pexpect = pytest.importorskip("pexpect")
    shell = pexpect.spawn("zsh", ["-f", "-i"], encoding="utf-8", dimensions=(24, 200), timeout=120,
                          env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(tmp_path)})
    shell.sendline(f"fpath=({prefix}/share/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D; "
                   "echo REA''DY")
    shell.expect("READY")
    shell.send("nkisim explain total_ti\t")
    shell.expect("nkisim explain total_time")
    shell.close(force=True)
