# Tests that the documentation page of SystemC modules lists every module of a chip, with its ports.

import json
import re
from collections import Counter

import pytest
from running import ROOT, cli

pytestmark = pytest.mark.process

PAGE = (ROOT / "models/README.md").read_text(encoding="utf-8")
TRACE = ROOT / "traces/softmax.jsonl"


def modules(*words):
    return json.loads(cli("chip", *words, "--json").stdout)["modules"]


def rows():
    """{class: its cells} of the page's table."""
    lines = (line for line in PAGE.splitlines() if re.match(r"\| `[a-z.]", line))
    cells = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return {re.search(r"`(\w+)`", c[1]).group(1): c for c in cells}


def drawn(column):
    """{class: its number} of the page's other table, of AWS's diagrams: blocks that are modules."""
    table = PAGE.partition("## Blocks of AWS's diagrams\n")[2].partition("\n## ")[0]
    found = {}
    for line in table.splitlines()[4:]:
        _, *cells = (cell.strip() for cell in line.split("|"))
        if len(cells) > 3 and cells[3].startswith("`"):
            found[re.search(r"`(\w+)`", cells[3])[1]] = int(cells[column])
    return found


@pytest.mark.parametrize(("target", "ranks", "column"), [("trn1", 2, 1), ("trn2", 8, 2), ("trn3", 8, 2)])
def test_a_whole_device_has_the_blocks_of_the_diagrams(target, ranks, column):
    found = Counter(m["kind"] for m in modules(TRACE, "--target", target, "--ranks", str(ranks)))
    numbers = drawn(column)
    assert numbers.pop("Links") == 4  # one module for all of a device's links
    assert set(numbers) == {"NeuronCore", "HbmStack", "DmaEngine", "CollectiveCore"}
    assert {kind: found[kind] for kind in numbers} == numbers
    assert found["Links"] == 1
    for kind in ("TensorEngine", "VectorEngine", "ScalarEngine", "GpSimdEngine", "SyncEngine", "Sbuf", "Psum"):
        assert found[kind] == numbers["NeuronCore"]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_each_block_of_the_card_is_a_module(target):
    """The card: Tensor, Vector, Scalar and GpSimd engines, the HBM/SBUF/PSUM hierarchy and DMA queues."""
    found = {m["name"]: m["kind"] for m in modules(TRACE, "--target", target)}
    core = "rank0.nc0."
    card = {f"{core}tensor": "TensorEngine", f"{core}vector": "VectorEngine", f"{core}scalar": "ScalarEngine",
            f"{core}gpsimd": "GpSimdEngine", f"{core}sbuf": "Sbuf", f"{core}psum": "Psum", "chip.hbm0": "HbmStack"}
    assert card.items() <= found.items()
    queues = [name for name, kind in found.items() if kind == "DmaQueue"]
    assert queues
    assert all(name.startswith(f"{core}dma.") for name in queues)


def test_every_class_of_a_chip_has_its_line():
    kinds = {m["kind"] for t in ("trn1", "trn2", "trn3") for m in modules("--target", t, "--ranks", "2")}
    kinds |= {m["kind"] for m in modules(TRACE)}
    assert kinds == set(rows())


def test_the_page_names_their_ports():
    table = rows()
    previous = ""
    for found in modules(TRACE, "--ranks", "2"):
        said = table[found["kind"]][2]
        previous = previous if said == "the same" else said
        ports = [] if said == "–" else (table["TensorEngine"][2] if said == "the same" else said).split(", ")
        assert ports == list(found["ports"]), found


def test_files_that_the_page_names_exist():
    for file in re.findall(r", ((?:core|engines|memory|dma|chip|world)/\w+) \|", PAGE):
        assert (ROOT / "models" / f"{file}.hpp").exists(), file
    for file in re.findall(r"`(\w+/\w+\.[ch]pp)`", PAGE):
        assert (ROOT / "models" / file).exists(), file


def test_the_blocks_of_a_core():
    names = [m["name"] for m in modules(TRACE)]
    core = [n.removeprefix("rank0.nc0.") for n in names if n.startswith("rank0.nc0.")]
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync", "sbuf", "semaphores", "psum.bank7", "dma.engine15"):
        assert engine in core
    assert "chip.hbm0" in names
    bound = next(m for m in modules(TRACE) if m["name"] == "rank0.nc0.vector")["ports"]
    assert bound == {"core": "rank0.nc0", "semaphores": "rank0.nc0.semaphores", "dma": "rank0.nc0.dma",
                     "sbuf": "rank0.nc0.sbuf", "psum": "rank0.nc0.psum"}


def test_cores_of_a_rank():
    names = {m["name"] for m in modules("--lnc", "2", "--target", "trn3")}
    assert {"rank0.nc0", "rank0.nc1"} <= names
    assert "1 to" in cli("chip", "--lnc", "64", code=2).stderr
    assert "a machine as --target" in cli("chip", "trn2", code=2).stderr


def test_a_trace_has_the_chip_of_its_target(tmp_path):
    lines = TRACE.read_text(encoding="utf-8").splitlines(keepends=True)
    assert '"target": "trn2"' in lines[0]
    other = tmp_path / "k.jsonl"
    other.write_text(lines[0].replace('"target": "trn2"', '"target": "trn3"') + "".join(lines[1:]), encoding="utf-8")
    assert "nkisim: trn3" in cli("chip", other, "--svg", "-").stdout
    assert "nkisim: trn2" in cli("chip", other, "--target", "trn2", "--svg", "-").stdout
    assert "trn1" in cli("chip", other, "--config", "trn1", code=2).stderr
