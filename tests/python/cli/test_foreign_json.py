"""Tests the reader of untrusted JSON files, and every Python reader on damaged files. A seed and a
number make each case again; NKISIM_FUZZED=100000 runs more (CI at night).
"""

import io
import json
import os
import random
import subprocess
import time

import pytest

from nkisim.values.errors import Error
from nkisim_evaluate.cache import is_record
from nkisim_evaluate.command import lines
from nkisim_evaluate.records import problem_of
from nkisim_evaluate.testimony import Outputs, Stop, error_of
from nkisim_model import ModelError, of_config
from nkisim_model import read as read_model
from nkisim_model.kinds import KINDS, SAME
from nkisim_model.goal import prices_of
from nkisim_model.report import row as line_of
from nkisim_model.share import share_of
from nkisim_model.sweep import Point, is_found
from nkisim_profile.session import BadSession
from nkisim_profile.sweep.journal import Journal, is_figure
from nkisim_profile.sweep.output import table
from nkisim_validation import measurements, probe
from nkisim_validation.program import Failed
from nkisim_work.foreign import Fields, Foreign, loads
from running import PROGRAM, cli

FUZZED = int(os.environ.get("NKISIM_FUZZED", "2000"))


# ---- the reader ----------------------------------------------------------------------------------
@pytest.mark.parametrize("text, said", [
    ("", "no JSON"), ("[", "no JSON"), ("nul", "no JSON"), (b"\xff\xfe", "no JSON"), ("NaN", "NaN"),
    ("[-Infinity]", "-Infinity"), ("[" * 65 + "]" * 65, "at most 64"), ("[" * 100_000, "at most 64"),
    ('{"a":' * 66 + "1" + "}" * 66, "at most 64"), ("1" * 31, "31 digits"), ("[" + "0," * 100 + "0]", "at most 200"),
    ('"\ud800', "no JSON")])
def test_what_is_no_json_is_reported(text, said):
    with pytest.raises(Foreign, match=said):
        loads(text, most_bytes=200 if "0,0" in str(text) else 1 << 20)


def test_json_is_what_python_reads():
    draw = random.Random(3)
    for _ in range(300):
        value = random_json(draw, 4)
        text = json.dumps(value)
        assert loads(text) == json.loads(text) == value
    assert loads("[" * 64 + "]" * 64)


@pytest.mark.parametrize("call, required", [
    (lambda f: f.integer("text"), "an integer from 0"), (lambda f: f.integer("true"), "an integer"),
    (lambda f: f.integer("real"), "an integer"), (lambda f: f.integer("none"), "an integer"),
    (lambda f: f.integer("seven", None, 8, 9), "from 8 to 9"), (lambda f: f.integer("seven", None, 0, 6), "to 6"),
    (lambda f: f.real("text"), "a number"), (lambda f: f.real("true"), "a number"),
    (lambda f: f.real("seven", None, 0, 1), "from 0 to 1"), (lambda f: f.real("absent"), "a number"),
    (lambda f: f.truth("seven"), "true or false"), (lambda f: f.text("seven"), "a text"),
    (lambda f: f.text("text", None, 1), "at most 1"), (lambda f: f.texts("text"), "a list of at most"),
    (lambda f: f.texts("mixed"), "a list of at most")])
def test_a_field_of_another_kind_is_reported(call, required):
    fields = Fields({"text": "abc", "true": True, "real": 1.5, "none": None, "seven": 7, "mixed": ["a", 1]})
    with pytest.raises(Foreign, match=required):
        call(fields)


def test_fields_that_are_right():
    fields = Fields({"seven": 7, "text": "abc", "list": ["a"], "none": None})
    assert (fields.integer("seven"), fields.real("seven"), fields.text("text"), fields.texts("list")) == (
        7, 7.0, "abc", ["a"])
    assert (fields.integer("absent", 3), fields.truth("none", True), fields.texts("absent")) == (3, True, [])
    for value in ([], None, 5, "x"):
        with pytest.raises(Foreign, match="an object"):
            Fields(value)


# ---- every reader --------------------------------------------------------------------------------
ODD = [None, True, False, 0, -1, 1, 2, 7, 128, 2**31, 2**63, 10**40, 1.5, -0.0, 1e308, "", "x", "8", "\x00", "\ud800",
       [], [1], [[]], {}, {"a": 1}, ["full_attention"], "gpt_oss", "mixtral", "llama", "qwen3_moe"]


def random_json(draw, depth):
    """A value of JSON."""
    kind = draw.randrange(6 if depth else 4)
    if kind < 4:
        return draw.choice([None, True, draw.randrange(-9, 1 << 40), draw.random(), "a\u00e9\"\\", ""])
    items = [random_json(draw, depth - 1) for _ in range(draw.randrange(4))]
    return items if kind == 4 else {f"k{n}": item for n, item in enumerate(items)}


def changed(draw, value):
    """A value, some of whose parts are others."""
    if isinstance(value, dict):
        found = {k: changed(draw, v) if draw.random() < 0.3 else v for k, v in value.items() if draw.random() > 0.03}
        if found and draw.random() < 0.5:
            found[draw.choice(list(found))] = draw.choice(ODD)
        return found
    if isinstance(value, list) and value:
        return [changed(draw, v) if draw.random() < 0.5 else draw.choice(ODD) for v in value * draw.randrange(3)]
    return draw.choice(ODD)


def damaged(draw, value):
    """Bytes of a JSON text, damaged or not."""
    data = bytearray(json.dumps(changed(draw, value)).encode())
    for _ in range(draw.choice([0, 0, 1, 3])):
        at = draw.randrange(len(data) + 1)
        data[at:at + draw.randrange(4)] = draw.choice([b"", b"[", b"}", b'"', b"\xff", b"9" * 40, b"[" * 3000, b"NaN"])
    return bytes(data)


MODEL = {"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 8,
         "num_key_value_heads": 4, "intermediate_size": 2048, "vocab_size": 4096, "head_dim": 128, "rms_norm_eps": 1e-6,
         "sliding_window": 128, "layer_types": ["sliding_attention"] * 2, "num_experts": 8, "num_local_experts": 8,
         "moe_intermediate_size": 64, "num_experts_per_tok": 2, "swiglu_limit": 7.0, "attention_bias": False,
         "norm_topk_prob": True, "tie_word_embeddings": False, "quantization_config": None, "mlp_only_layers": [],
         "decoder_sparse_step": 1, "use_sliding_window": True}
#: Fields of other kinds of models, of which each case has some.
OTHERS = {"kv_lora_rank": 64, "q_lora_rank": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64,
          "hybrid_override_pattern": "M*", "n_routed_experts": 8, "n_shared_experts": 1, "mamba_n_groups": 1,
          "mamba_n_heads": 8, "mamba_d_state": 64, "mamba_d_head": 64, "mamba_d_conv": 4, "linear_num_key_heads": 4,
          "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64, "vision_config": {},
          "text_config": None, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
RECORD = {"nkisim_evaluate": 1, "version": "0", "target": "trn2", "config_hash": "default", "id": 1, "status": "ok",
          "latency_us": 2.5, "speedup": None, "seeds": {"0": {"equal": True, "max_abs": 0.0}}, "flags": {},
          "cached": False, "error": {"code": "c", "message": "m"}, "sbuf_partition_bytes": 1}
OUTPUTS = [{"tensor": "o", "shape": [2], "strides": [1], "dtype": "float32", "offset": 0}]


def read_a_model(data, path):
    """With fields of other kinds as well."""
    draw = random.Random(data)
    try:
        value = json.loads(data)
        value = {**value, **{k: changed(draw, v) if draw.random() < 0.1 else v for k, v in OTHERS.items()},
                 "model_type": draw.choice([*KINDS, *SAME, *ODD])}
        data = json.dumps(value if draw.random() < 0.9 else {"model_type": "qwen3", "text_config": value}).encode()
    except (ValueError, TypeError, RecursionError):
        pass
    path.write_bytes(data)
    share_of(read_model(path), "trn2", 4).weight_bytes  # noqa: B018


def read_a_journal(data, path):
    path.write_bytes(b'{"nkisim_sweep": 1}\n' + data.replace(b"\n", b" ") + b"\n")
    journal = Journal(path, str)
    journal._file.close()
    rows = [{**row, "point": {"a": 1}} for row in journal.rows.values() if is_figure(row["summary"].get("total_time"))]
    assert not rows or len(table(rows, "total_time")) == 2


def read_a_point(data, path):
    row = json.loads(data)
    if isinstance(row, dict) and is_found(row, True, True):
        assert line_of(Point(4, 1, 2048, kept=row["result"]), True, True)


def written(read):
    """A reader of a file for one of its bytes."""
    def reader(data, path):
        path.write_bytes(data)
        read(str(path))
    return reader


def read_a_record(data, path):
    value = json.loads(data)
    assert isinstance(is_record(value), bool) and isinstance(problem_of(value), (str, type(None)))


#: name: (what is changed, the reader, how it refuses). What else it raises is a bug.
READERS = {
    "model": (MODEL, read_a_model, Error), "journal": ({"point": {"a": 1}, "stamp": "s", "summary": {
        "total_time": 1e-5, "name": "k"}}, read_a_journal, BadSession),
    "point": ({"point": {"tp": 4}, "stamp": "s", "result": {
        "tpot_us": 9.5, "tokens_per_second": 105.0, "layer_us": 1.5, "weight_bytes": 1 << 30, "cache_bytes": 9,
        "ttft_us": 5.0, "fits": True, "next_kernel": "mlp", "served": {"tpot_us": 10.0},
        "speculation": {"tpot_us": 4.0}}}, read_a_point,
        (ValueError, RecursionError)),
    "record": (RECORD, read_a_record, (ValueError, RecursionError)),
    "outputs": (OUTPUTS, lambda data, path: Outputs(json.loads(data)), (Stop, ValueError, KeyError, TypeError,
                                                                        RecursionError)),
    "error": (RECORD["error"], lambda data, path: error_of(json.loads(data)), (Stop, ValueError, RecursionError)),
    "candidates": ({"id": 1, "source": "x"}, lambda data, path: list(lines(io.BytesIO(data))), ()),
    "foreign": (MODEL, lambda data, path: loads(data), Foreign),
    "prices": ({"trn2.48xlarge": 44.6, "trn1.2xlarge": 1.3}, written(prices_of), Error),
    "probes": ({"nkisim_probe": 1, "target": "trn2", "probes": {"load_rate": {"counts": [8, 40], "us": [
        [9, 9.5], [30, 31]]}, "other": {"counts": [1, 2], "us": [[1], [2]]}}}, written(probe.read), Failed),
    "measurements": ({"measurements": [{"trace": "f.json", "metric": "total_time", "value": 2.5, "unit": "us"}, {
        "profile": "f.json", "weight": 2}]}, written(measurements.read), Failed),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_it_or_refuses_it(name, tmp_path):
    value, reader, refusal = READERS[name]
    begin, draw = time.process_time(), random.Random(20261126)
    taken = 0
    for number in range(FUZZED):
        data = damaged(draw, value)
        try:
            reader(data, tmp_path / "f.json")
            taken += 1
        except refusal:
            pass
        except Exception as problem:
            raise AssertionError(f"case {number}: {data[:400]!r}") from problem
    assert 0 < taken or name == "outputs"
    assert time.process_time() - begin < 5 + FUZZED / 200


@pytest.mark.parametrize("change, said", [
    ({"rms_norm_eps": None}, "rms_norm_eps is None"), ({"model_type": ["qwen3"]}, "model_type ['qwen3']"),
    ({"num_hidden_layers": 2**31 - 1}, "num_hidden_layers is 2147483647; required: an integer from 1 to 4096"),
    ({"layer_types": 5}, "layer_types of 5 layers"), ({"layer_types": [5, 5]}, "layer_types of 2 layers"),
    ({"attention_bias": "no"}, "attention_bias is 'no'"), ({"head_dim": -1}, "head_dim is -1"),
    ({"intermediate_size": [2048, "x"]}, "intermediate_size is [2048, 'x']"), ({"swiglu_limit": 1}, None),
    ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}}, "weight_block_size is [0, 1]"),
    ({"hybrid_override_pattern": "M" * 5000}, "a text of at most 4096"), ({"mlp_only_layers": 10**30}, "mlp_only"),
    ({"layer_types": None}, None), ({"head_dim": None}, None), ({"attention_bias": None}, None)])
def test_a_models_fields_have_their_kinds(change, said):
    if said is None:
        assert of_config({**MODEL, **change}).layers == 2
        return
    with pytest.raises(ModelError) as problem:
        of_config({**MODEL, **change})
    assert said in str(problem.value)


@pytest.mark.process
@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "{", '{"model_type": ["x"]}', "\x00", f'{{"a": {"9" * 5000}}}'])
def test_the_command_says_one_line(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    done = cli("model", tmp_path / "config.json", code=3)
    assert done.stderr.startswith("nkisim model: ") and len(done.stderr.splitlines()) == 1


@pytest.mark.process
@pytest.mark.parametrize("command", ["mcp", "lsp", "model", "evaluate", "tune", "view", "sweep", "advise", "debug",
                                     "validate"])
@pytest.mark.parametrize("words", ["--help", "--help-all --json"])
def test_help_into_a_pipe_that_no_one_reads(command, words):
    """Where the packages of a command are missing, it says so."""
    done = subprocess.run(["bash", "-c", f"{PROGRAM} {command} {words} | true"], capture_output=True, text=True,
                          check=True)
    assert "Traceback" not in done.stderr and "Error" not in done.stderr, done.stderr
