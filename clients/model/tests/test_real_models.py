"""Tests `nkisim model` on the config.json of public models: each is read correctly, and some of
each kind run.
"""

import json

import pytest
from running import ROOT

from nkisim_model import of_config, predict, report, share_of

ROWS = json.loads((ROOT / "tests" / "support" / "real_models.json").read_text())["models"]
MODELS = {row["name"]: row for row in ROWS}
#: Some of every kind, small enough for one chip.
RUN = {"Llama 3.2 1B": "trn2", "Qwen2.5 0.5B": "inf2", "Gemma 3 1B": "trn2", "Falcon 7B": "trn1", "Phi 1.5": "trn2",
       "Qwen3 VL 8B": "trn2", "OLMoE 1B 7B": "trn2", "Qwen1.5 MoE A2.7B": "inf2", "GPT-OSS 20B": "trn2",
       "DeepSeek V2 Lite": "trn2", "MiniCPM3 4B": "trn1", "Granite 4 H Tiny": "trn2", "Nemotron H 8B": "trn2",
       "Falcon H1 0.5B": "trn1", "Mamba Codestral 7B": "inf2", "Llama 3.1 8B 4 bit": "trn2"}


@pytest.mark.parametrize("name", MODELS)
def test_the_parameters_are_the_cards(name):
    """Within 1 %: norms, biases, and embedded positions are not counted; nothing of the config is not known."""
    model = of_config(MODELS[name]["config"])
    assert sum(model.weights.values()) == pytest.approx(MODELS[name]["billions"] * 1e9, rel=0.01)
    assert not model.unknown


def test_each_field_is_confirmed_or_listed():
    for row in ROWS:
        keys = row["config"].get("text_config", row["config"]).keys() - {"model_type", "vision_config"}
        assert set(row["unchecked"]) <= keys
        assert row["checked"] or set(row["unchecked"]) == keys, row["name"]
    assert sum(not row["unchecked"] for row in ROWS) >= 36


def test_how_many_of_each_kind():
    models = [of_config(row["config"]) for row in ROWS]
    assert len(models) >= 60
    for least, some in ((6, [m for m in models if m.experts]), (6, [m for m in models if m.latent]),
                        (6, [m for m in models if m.linear]), (6, [m for m in models if m.quantised]),
                        (6, [row for row in ROWS if {"text_config", "vision_config"} & row["config"].keys()])):
        assert len(some) >= least


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_one_of_each_kind_runs(name):
    """Every part that has weights reads them, and none is faster than its roof."""
    model = of_config(MODELS[name]["config"])
    lnc = 2 if RUN[name] == "trn2" else 1
    share = share_of(model, RUN[name], 2, batch=2, context=256, lnc=lnc)
    found = predict(share, None)
    reads = model.weights_of(share.sizes)
    kept = model.quantised if model.quantised and not model.quantised.unpacked else None

    def width(part):  # bytes of a weight, as it lies in HBM
        return kept.bits / 8 if kept and part in kept.parts else 2

    assert found.parts["head"].read_bytes >= 2 * reads["head"]
    if reads["attention"]:
        assert found.parts["attention"].read_bytes >= width("attention") * reads["attention"]
    if reads["mlp"] and not model.experts:
        assert found.parts["mlp"].read_bytes >= width("mlp") * reads["mlp"]
    for part in found.parts.values():
        assert part.us >= 0.999 * part.roof_us
    assert "kernels       " in "\n".join(report.lines(found))
