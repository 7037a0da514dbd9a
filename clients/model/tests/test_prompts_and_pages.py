"""Tests three parts of `nkisim model`: the time to the first token, lists of configurations, and
the HTML page.
"""

import dataclasses
import html.parser
import json
import os
import pathlib
import re
from types import SimpleNamespace

import pytest
import small_model
from running import cli, python
from small_model import SMALL, copied, reads, twice

from nkisim_model import ModelError, library, of_config, page, predict, prefill, report, share_of
from nkisim_model.between import served, with_between
from nkisim_model.step import PARTS
from nkisim_model.sweep import Point, Sweep
from nkisim_profile.session import Session


@pytest.fixture(scope="module")
def small():
    return share_of(of_config(SMALL), "trn2", 2, context=256)


# ---- a prompt ------
@pytest.fixture
def prompted(monkeypatch):
    """A share, and what stands for a library whose parts of a prompt are twice()."""
    monkeypatch.setattr(library, "attention_of_prompt", twice)
    monkeypatch.setattr(library, "mlp_of_prompt", twice)
    model = of_config({**SMALL, "head_dim": 128, "num_hidden_layers": 12})
    return share_of(model, "trn2", 2, context=4096), SimpleNamespace(root="none")


def test_a_prompts_steady_state_is_the_whole_run(prompted):
    short, whole = predict(*prompted, prompt=4096), predict(*prompted, prompt=4096, exact=True)
    assert short.steady and len(short.layers_us) == 6 and short.prompt == 4096
    assert short.step_us == pytest.approx(whole.step_us, rel=0.005)
    assert sum(part.us for part in short.parts.values()) == pytest.approx(short.step_us, rel=1e-9)
    # x and x again for the part, x and delta for the sum.
    assert short.parts["mlp residual"].read_bytes == 12 * 2 * 4096 * 256 * 2
    shorter = predict(*prompted, prompt=2048)
    assert shorter.parts["mlp residual"].read_bytes == short.parts["mlp residual"].read_bytes / 2
    assert shorter.step_us < short.step_us
    text = "\n".join(report.lines(short, whole))
    assert f"first token   {whole.step_us / 1e3:.3f} ms after a prompt of 4096 tokens" in text
    more = whole.share.model.layers * 34 + 1750  # of a graph's boundaries, and the host
    assert f"served after about {(whole.step_us + more) / 1e3:.1f} ms" in text
    assert "of the prompt" in text
    assert f"{whole.step_us / 1e3:10.3f}  " in report.table([Point(2, 1, 4096, short, None, whole)])[1]


def test_a_prompt_is_padded_to_whole_tiles(prompted):
    share = dataclasses.replace(prompted[0], context=900)
    found, whole = predict(share, prompted[1], prompt=900), predict(*prompted, prompt=1024)
    assert found.step_us == pytest.approx(whole.step_us, rel=0.01) and (found.prompt, whole.prompt) == (900, 1024)
    text = "\n".join(report.lines(whole, found))
    assert "after a prompt of 900 tokens (run as 1024), " in text
    assert "(run as" not in "\n".join(report.lines(whole, whole))


@pytest.mark.parametrize("change, tokens, words", [
    ({}, 0, "at least 1"), ({}, 4608, "than the context has"),
    ({"num_attention_heads": 4, "head_dim": 64, "context": 8704}, 8704, "at most 8192 tokens")])
def test_a_prompt_that_cannot_be(prompted, change, tokens, words):
    context = change.get("context", 4096)
    share = share_of(of_config({**SMALL, "head_dim": 128, **change}), "trn2", 2, context=context)
    with pytest.raises(ModelError, match=words):
        predict(share, prompted[1], prompt=tokens)


@pytest.mark.parametrize("change, how, words", [
    ({}, {}, ""), ({"head_dim": 64}, {}, "heads of 64"), ({"model_type": "qwen3"}, {}, "a norm of queries"),
    ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, {}, "experts, whose tokens"),
    ({"model_type": "mistral", "sliding_window": 256}, {}, "a window of 256"), ({}, {"lnc": 1}, "logical cores of two"),
    ({}, {"target": "trn1"}, "trn2 and trn3"), ({}, {"own": True}, "as asked")])
def test_whose_kernels_a_prompt_has(prompted, change, how, words):
    how = {"target": "trn2", **how}
    share = share_of(of_config({**SMALL, "head_dim": 128, **change}), how.pop("target"), 2, context=4096, **how)
    found = prefill.routes(share, prompted[1], 512)
    assert all(words in route.why and route.whose == ("nkisim" if words else "nki-library") for route in found.values())


# ---- between kernels ------
def test_what_lies_between_kernels(small):
    """By hand: 98 boundaries a layer are 34 us, in 60 layers; without them the step is as it was."""
    parts = {"attention": copied, "mlp": copied}
    alone = predict(small, None, parts)
    assert with_between(alone) == alone
    p = with_between(alone, 98, 1500.0)
    assert p.parts["boundaries"].us == pytest.approx(60 * 34) and p.parts["host"].us == 1500
    assert p.step_us == pytest.approx(alone.step_us + 60 * 34 + 1500)
    assert p.layer_us == pytest.approx(alone.layer_us + 34) and p.next_kernel == alone.next_kernel
    assert p.tokens_per_second == pytest.approx(1e6 / p.step_us)
    text = "\n".join(report.lines(p))
    assert "boundaries 100%" in text and "not counted   sampling" in text
    assert "not counted   the host, launches between kernels" in "\n".join(report.lines(alone))
    assert served(p)[:4] == (p.step_us, 60 * 34, 1500, p.tokens_per_second)  # nothing is added twice
    usual = served(alone)
    assert usual.us == pytest.approx(alone.step_us + 60 * 34 + 1750) and usual.host_us == 1750
    assert usual.tokens_per_second == pytest.approx(1e6 / usual.us)
    assert f"served        about {usual.us / 1e3:.1f} ms" in "\n".join(report.lines(alone))
    for wrong in ((-1, 0.0), (0, -1.0), (0, float("nan"))):
        with pytest.raises(ModelError, match="at least 0"):
            with_between(alone, *wrong)
    asked = Sweep(small.model, "trn2", "bfloat16", {"tp": [2], "batch": [1], "context": [256]}, replaced=parts,
                  boundaries=98, host_us=1500.0)
    point = asked.predicted(asked.points()[0])
    assert point.found.as_json() == p.as_json()
    assert point.as_json()["served"] == {"tpot_us": p.step_us, "boundaries_us": pytest.approx(60 * 34), "host_us": 1500,
                                         "tokens_per_second": p.tokens_per_second, "interval": served(p).interval}


# ---- a sweep ------
@pytest.mark.process
def test_a_sweep_says_what_cannot_be(small):
    """In two processes what one says; a point that cannot be is a line of the table, and the others are predicted."""
    parts = {"attention": twice, "mlp": twice}
    asked = Sweep(small.model, "trn2", "bfloat16", {"tp": [0, 2, 5000], "batch": [1, 2], "context": [256]},
                  replaced=parts)
    points = asked.run(2)
    assert [(p.tp, p.batch) for p in points] == [(0, 1), (0, 2), (2, 1), (2, 2), (5000, 1), (5000, 2)]
    assert [bool(p.found) for p in points] == [False, False, True, True, False, False]
    assert points[2].found.as_json() == predict(small, None, parts).as_json()
    assert "tp 0; required: at least 1" in points[0].problem and "at most 4096 ranks" in points[4].problem
    lines = report.table(points)
    assert len(lines) == 7 and lines[1].startswith("   0      1      256  ") and points[0].problem in lines[1]
    assert lines[3].split()[:4] == ["2", "1", "256", f"{points[2].found.step_us / 1e3:.3f}"]
    ended = Sweep(small.model, "trn2", "bfloat16", {"tp": [2], "batch": [1], "context": [256]},
                  replaced={**parts, "mlp": lambda *_: os._exit(1)}).run(1)
    assert "before its time" in ended[0].problem
    assert points[0].as_json() == {"tp": 0, "batch": 1, "context": 256, "error": points[0].problem}


@pytest.mark.process
@pytest.mark.slow
def test_a_sweep_on_workers_of_dask(small):
    """A scheduler's processes give the results of this machine's; functions of the user's go along."""
    distributed = pytest.importorskip("dask.distributed")
    asked = Sweep(small.model, "trn2", "bfloat16", {"tp": [2, 0], "batch": [1], "context": [256, 512]},
                  replaced={"attention": twice, "mlp": lambda *a: twice(*a)})
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, \
            distributed.Client(cluster) as client:
        client.run(lambda folder: __import__("sys").path.append(folder), str(pathlib.Path(small_model.__file__).parent))
        found = asked.run(executor=client.get_executor(pure=False))
    assert [p.as_json() for p in found] == [p.as_json() for p in asked.run(1)]
    assert [bool(p.found) for p in found] == [True, True, False, False]


@pytest.mark.process
def test_a_sweep_keeps_a_journal_and_takes_a_shard(tmp_path):
    """Points of the journal are not simulated again: a number that was changed there is printed."""
    config, journal = tmp_path / "config.json", tmp_path / "points.jsonl"
    config.write_text(json.dumps({**SMALL, "num_hidden_layers": 3}))
    words = ("model", config, "--own", "--sweep", "tp=2,4", "context=256,512")
    first = cli(*words, "--shard", "1/2", "--journal", journal).stdout.splitlines()
    assert sorted(line.split()[0] for line in first[1:]) == ["2", "4"]
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    assert rows[0] == {"nkisim_model": 1}
    assert sorted((row["point"]["tp"], row["point"]["context"]) for row in rows[1:]) == [(2, 256), (4, 256)]
    rows[1]["result"]["tpot_us"] = 123456.0
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = cli(*words, "--journal", journal).stdout
    assert "123.456" in again and len(again.splitlines()) == 5
    found = json.loads(cli(*words, "--journal", journal, "--json").stdout)
    assert [(p["tp"], p["context"]) for p in found] == [(2, 256), (2, 512), (4, 256), (4, 512)]
    both, second = tmp_path / "both.jsonl", tmp_path / "second.jsonl"
    cli(*words, "--shard", "2/2", "--journal", second)
    rows = [json.loads(line) for line in second.read_text().splitlines()]
    rows[1]["result"]["tpot_us"] = 654321.0
    both.write_text(journal.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    joined = cli(*words, "--journal", both).stdout
    assert "123.456" in joined and "654.321" in joined and len(joined.splitlines()) == 5
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    cli(*words, "--journal", other, code=3)
    cli("model", config, "--own", "--shard", "1/2", code=2)
    cli(*words, "--shard", "3/2", code=2)


# ---- copies side by side ------
def test_copies_of_a_model(small):
    """Four copies of two ranks reduce each among themselves, and take the time of one copy."""
    parts = {"attention": copied, "mlp": copied}
    four = dataclasses.replace(small, dp=4)
    assert four.groups == [[0, 1], [2, 3], [4, 5], [6, 7]] and small.groups == [[0, 1]]
    one, all_four = predict(small, None, parts), predict(four, None, parts)
    assert all_four.step_us == pytest.approx(one.step_us, rel=0.02)
    assert all_four.tokens_per_second == pytest.approx(4e6 / all_four.step_us)
    assert "4 copies, each batch 1" in report.lines(all_four)[0] and all_four.as_json()["dp"] == 4
    for copies in (0, 4096):
        with pytest.raises(ModelError, match="at least 1 copy, and at most 4096 ranks"):
            share_of(small.model, "trn2", 2, context=256, dp=copies)
    asked = Sweep(small.model, "trn2", "bfloat16", {"tp": [2], "batch": [1], "context": [256]}, replaced=parts, dp=4)
    assert asked.predicted(asked.points()[0]).found.as_json() == all_four.as_json()


# ---- two configurations ------
def test_a_comparison_is_of_all_parts(small):
    """By hand: the mlp that reads more comes first, and the changes are the difference of the steps."""
    light = predict(small, None, {"attention": copied, "mlp": copied})
    heavy = with_between(predict(small, None, {"attention": copied, "mlp": reads}), 0, 1500.0)
    points = [Point(2, 1, 256, found=found) for found in (light, heavy)]
    lines = report.comparison(points, ("mlp=a.py:f", "mlp=b.py:longer"))
    assert lines[0].startswith(f"mlp=a.py:f     {light.step_us / 1e3:>10.3f} ms")
    assert lines[1].endswith(f"{heavy.tokens_per_second / light.tokens_per_second - 1:+.1%}")
    rows = {line[:22].strip(): line[22:].split() for line in lines[4:]}
    assert rows.keys() == {*PARTS, "host"} and rows["host"][:4] == ["0.0", "->", "1500.0", "+1500.0"]
    changes = [float(row[3]) for row in rows.values()]
    assert [abs(c) for c in changes] == sorted(map(abs, changes), reverse=True)
    assert sum(changes) == pytest.approx(heavy.step_us - light.step_us, abs=1)
    assert rows["mlp"][7].startswith(max(heavy.parts["mlp"].bounds, key=lambda c: heavy.parts["mlp"].bounds[c]
                                         - light.parts["mlp"].bounds.get(c, 0)).split()[0])


@pytest.mark.process
def test_the_command_compares(tmp_path):
    config, mine = tmp_path / "config.json", tmp_path / "mine.py"
    config.write_text(json.dumps(SMALL))
    support = str(pathlib.Path(small_model.__file__).parent)
    mine.write_text(f"import sys\nsys.path.append({support!r})\nfrom small_model import copied, reads\n")
    words = ("model", config, "--tp", "2", "--context", "256", "--kernel", f"attention={mine}:copied", "--kernel",
             f"mlp={mine}:copied", "--compare")
    found = json.loads(cli(*words, f"mlp={mine}:reads", "context=512", "--json").stdout)
    assert [p["context"] for p in found] == [256, 512]
    assert found[0]["parts"]["mlp"]["read_bytes"] < found[1]["parts"]["mlp"]["read_bytes"]
    text = cli(*words, "context=512").stdout
    assert "context=256" in text.splitlines()[0] and "context=512" in text.splitlines()[1]
    assert "one value" in cli(*words, "tp=2,4", code=2).stderr
    assert "for --sweep" in cli(*words, "tp=2", "--dask", "tcp://127.0.0.1:1", code=2).stderr
    assert "exclude" in cli(*words, "tp=2", "--sweep", "tp=2,4", code=2).stderr


def test_a_step_is_watched_on_one_rank(small, monkeypatch):
    """64 sessions of what is simulated once took five times as long as the simulation."""
    kept = []
    monkeypatch.setattr(Session, "__init__", noted(Session.__init__, kept))
    predict(small, None, {"attention": copied, "mlp": copied})
    assert len(kept) == 1 and kept[0] == ["0.npz"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc")
def test_ten_models_leave_memory_as_it_was():
    """The size of a process of its own is read from the system."""
    support = str(pathlib.Path(small_model.__file__).parent)
    program = f"""
import sys
sys.path.append({support!r})
from small_model import SMALL, copied, reads
from nkisim_model import of_config, predict, share_of

def size():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

for n in range(10):
    model = of_config({{**SMALL, "num_hidden_layers": 30 + n, "intermediate_size": 512 + 256 * n}})
    predict(share_of(model, "trn2", 2, context=256), None, {{"attention": copied, "mlp": reads}})
    print(size())
"""
    sizes = [float(line) for line in python("-c", program).stdout.split()]
    assert len(sizes) == 10 and max(sizes[2:]) < sizes[1] + 8  # MiB: one model's recording is as much


def noted(begin, kept):
    def call(self, path):
        kept.append(sorted(os.listdir(os.path.dirname(path))))
        begin(self, path)

    return call


# ---- the page ------
def test_a_timeline_is_one_layers(small):
    p = predict(small, None, {"attention": copied, "mlp": reads})
    begin, end = min(s.begin for s in p.timeline), max(s.end for s in p.timeline)
    assert end - begin == pytest.approx(p.layer_us, rel=0.2)
    assert {s.part for s in p.timeline} == set(PARTS[1:7])
    rows = {row: [s for s in p.timeline if s.row == row] for row in {s.row for s in p.timeline}}
    assert rows.keys() >= {"Vector", "transfers", "collectives"}
    assert [s.part for s in rows["collectives"]] == ["attention all-reduce", "mlp all-reduce"]
    for slices in rows.values():
        assert all(a.begin < a.end for a in slices)
        assert all(a.begin <= b.begin and (a.part != b.part or b.begin > a.end) for a, b in zip(slices, slices[1:]))


class Tags(html.parser.HTMLParser):
    """The rectangles of each picture, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.pictures, self.text = [], {}, ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag == "svg":
            self.picture = self.pictures.setdefault(dict(attrs)["aria-label"], [])
        if tag == "rect":
            self.picture.append(dict(attrs))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


BAR = re.compile(r"<div title='([^']*)' style='width:([\d.]+)%")


def test_the_page_of_a_sweep(small, tmp_path):
    one = predict(small, None, {"attention": copied, "mlp": copied})
    two = predict(small, None, {"attention": copied, "mlp": reads})
    points = [Point(2, 1, 256, one), Point(3, 1, 256, problem="no <divisor>"), Point(2, 2, 256, two)]
    page.write(points, tmp_path / "p.html")
    seen = Tags((tmp_path / "p.html").read_text())
    longest = max(one.step_us, two.step_us)
    bars = {title: float(width) for title, width in BAR.findall((tmp_path / "p.html").read_text())}
    for p in (one, two):
        for name, part in p.parts.items():
            if part.us:
                said = f"{name}: {part.us:.1f} us, {part.us / p.step_us:.1%}, roof {part.roof_us:.1f}"
                assert bars[said] == pytest.approx(100 * part.us / longest, abs=0.01)
    share = two.share
    assert f"cache {share.cache_bytes / 2**30:.2f} of {share.memory_bytes / 2**30:.0f} GiB" in seen.text
    assert "tp 2, batch 2, context 256: " in (tmp_path / "p.html").read_text() and "next" in seen.text
    assert len(seen.pictures["timeline of one layer"]) == len(one.timeline)
    assert "no <divisor>" in seen.text and f"{two.step_us / 1e3:.2f} ms" in seen.text and "GFLOP/s" in seen.text
    page.write([Point(2, 1, 256, two, None, one)], tmp_path / "p.html")
    seen = Tags((tmp_path / "p.html").read_text())
    assert "A prompt of" in seen.text and "first token" in seen.text
