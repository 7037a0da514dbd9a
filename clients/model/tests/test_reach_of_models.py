"""Tests what public models are answered on which instances: no refusal but for memory, and the table of the docs."""

import json
from collections import Counter

import pytest
from running import ROOT

from nkisim_model import of_config, share_of
from nkisim_model.architecture import ModelError
from nkisim_model.instances import find
from nkisim_model.routes import routes

MODELS = json.loads((ROOT / "tests" / "support" / "real_models.json").read_text())["models"]
ROWS = json.loads((ROOT / "clients" / "validation" / "table" / "model_reach.json").read_text())["rows"]
ON = ("trn2.48xlarge", "trn2.3xlarge", "trn1.32xlarge", "inf2.48xlarge", "inf2.8xlarge")


@pytest.mark.parametrize("on", ON)
def test_memory_alone_refuses(on):
    """Each model's share, and its kernels, on all ranks of an instance: not simulated here."""
    for row in MODELS:
        instance = find(on)
        share = share_of(of_config(row["config"]), instance.target, instance.ranks_of(None), lnc=instance.lnc)
        assert all(route.whose == "nkisim" for route in routes(share, None, {}).values())
        try:
            instance.check(share)
        except ModelError as problem:
            assert "GiB a rank" in str(problem)


def test_the_kept_answers_are_of_all_models():
    assert Counter((r["model"], r["instance"]) for r in ROWS) == Counter((m["name"], on) for m in MODELS for on in ON)
    for row in ROWS:
        if "refused" in row:
            assert "GiB a rank" in row["refused"], row
        else:
            assert row["us"] > 0 and row["served_us"] > row["us"] and row["kernels"], row
            assert not row["below_roof"], row


def test_how_many_are_answered():
    found = Counter(r["instance"] for r in ROWS if "refused" not in r)
    assert found["trn2.48xlarge"] >= 57 and found["trn2.3xlarge"] >= 50
    assert found["trn1.32xlarge"] >= 57 and found["inf2.48xlarge"] >= 57
