"""Tests `nkisim check --migrate`, which lists by line what a kernel file must change for an SDK
release.
"""

import json

import pytest

from nkisim.tools import explain_name, migrate
from running import cli

OLD = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
from nki.language import par_dim
import nki.isa as nisa
import nki.language


@nki.jit(mode="auto")
def kernel(x):
    i = nl.arange(128)[:, None]
    for _ in nl.affine_range(4, precise_schedule=True):
        tile = nl.ndarray((par_dim(128), 4), dtype=nl.fp32.min, buffer="sbuf")
        nisa.dma_copy(tile, x, engine=3)
    for j in nl.dynamic_range(4):
        pass
    reg = nisa.register_alloc(1)
    while reg:
        nisa.register_move(reg, imm=0)
    nki.language.mgrid
    out = nl.tiles(x, tile_shape=(128, 128))
    return out


nki.baremetal(kernel)
"""

#: line -> words that the findings there have
EXPECTED = {1: "neuronxcc.nki is of NKI 0.1", 2: "neuronxcc.nki.language", 3: "the size itself",
            10: "slices", 11: "precise_schedule",
            12: "nl.sbuf", 13: "a member of nisa.engine", 14: "nl.fori_loop", 17: "nl.while_loop",
            18: "src=", 19: "nki.language.mgrid", 24: "a call of the kernel"}


def texts(release, source=OLD):
    found = {}
    for f in migrate.findings(source, release):
        found.setdefault(f.line, []).append(f.text("k.py"))
    return found


@pytest.mark.parametrize("line", EXPECTED)
def test_each_change_is_named_at_its_line_with_its_replacement(line):
    assert any(EXPECTED[line] in text for text in texts(33)[line]), texts(33)


def test_nothing_else_is_named():
    assert set(texts(33)) <= set(EXPECTED)
    assert 14 not in texts(32) and 17 not in texts(32)  # the parser still takes these loops
    assert any("tiles" in text for text in texts(32)[20])  # which 2.33 has


def test_a_kernel_of_today_needs_nothing():
    today = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray(nl.tiles(x, tile_shape=(128, 128)).element_shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.fori_loop(0, nisa.scalar_load(tile), lambda i: None)
    return nki.simulate(kernel)
"""
    assert texts(33, today) == {}


def test_the_command_says_it_and_fails(tmp_path, capsys):
    path = tmp_path / "k.py"
    path.write_text(OLD)
    assert migrate.main(["--to", "2.33", str(path)]) == 3
    assert f"{path}:14: nki.language.dynamic_range" in capsys.readouterr().out
    assert migrate.main(["--json", str(path)]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["sdk"] == "2.33" and {c["line"] for c in found["changes"]} == set(texts(33))
    path.write_text("x = 1\n")
    assert migrate.main([str(path)]) == 0 and "0 to change" in capsys.readouterr().out
    path.write_text("def (:\n")
    assert migrate.main([str(path)]) == 3 and capsys.readouterr().err


def test_a_name_is_explained_by_the_releases_that_have_it(capsys):
    assert explain_name.main(["nl.tiles"]) == 0
    assert "nki.language.tiles(source, *, tile_shape=None)" in capsys.readouterr().out
    assert explain_name.main(["neuronxcc.nki.language.arange", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["releases"][0]["sdk"].startswith("2.20")
    assert explain_name.main(["nl.nothing"]) == 2
    caught = capsys.readouterr()
    assert caught.out == "" and caught.err == "nkisim: nl.nothing: no page of SDK 2.20 to 2.33 lists it\n"


RENAMED = """\
import nki
from neuronxcc.nki import baremetal
import nki.isa as nisa
own = nki.language
reg = nisa.register_alloc(1)
for i in range(reg):
    own.mgrid
count = int(reg)
for i in own.dynamic_range(4):
    pass
"""


def test_names_are_followed_through_assignments_and_registers_into_functions():
    assert {line: [t.split(": ", 1)[1].split(" ", 2)[0] for t in found]
            for line, found in texts(33, RENAMED).items()} == {
        2: ["nki.baremetal"], 6: ["range()"], 7: ["nki.language.mgrid"], 8: ["int()"],
        9: ["nki.language.dynamic_range"]}
    assert {2, 7} == set(texts(32, RENAMED))


def test_a_name_of_the_older_api_alone_is_explained_by_its_todays_spelling(capsys):
    assert explain_name.main(["nl.arange"]) == 0
    assert capsys.readouterr().out.split() == "SDK 2.20 to 2.26 neuronxcc.nki.language.arange(*args)".split()


@pytest.mark.process
def test_check_migrates_and_explain_knows_names(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(OLD)
    assert f"{path}:14: nki.language.dynamic_range" in cli("check", "--migrate", "2.33", path, code=3).stdout
    changes = json.loads(cli("check", "--migrate", "2.33", path, "--json", code=3).stdout)["changes"]
    assert {c["line"] for c in changes} == set(texts(33))
    assert "SDK 2.33" in cli("explain", "nl.tiles").stdout
    assert json.loads(cli("explain", "nl.nothing", "--json", code=2).stdout)["error"]["kind"] == "usage"


#: The first break of each kernel of contributed/ at SDK 2.32, by the table of nki-samples#134, written anew.
SAMPLES = {
    "decode_attention": ("import nki\n\nnki.simulate_kernel(print, 1)\n", "nki.simulate_kernel"),
    "pipelined_attention": ("import nki.language as nl\n\nrange(4) or nl.affine_range(4, precise_schedule=True)\n",
                            "no keyword precise_schedule"),
    **{name: ("from neuronxcc.nki import baremetal\n\n\n@baremetal\ndef k(x): pass\n", "nki.baremetal")
       for name in ("matmul", "maxpooling", "interpolate_bilinear_fwd", "interpolate_trilinear_fwd")},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_broke_the_contributed_samples_is_reported(name):
    source, what = SAMPLES[name]
    assert [f for f in migrate.findings(source, 32) if f.must and what in f.what], texts(32, source)
