"""Tests that the JSON Schema of machine descriptions accepts the same files as their reader."""

import copy
import json

import pytest

from running import ROOT, cli

jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.process

SCHEMA = json.loads((ROOT / "configs" / "schema.json").read_text())
CONFIGS = sorted(p for p in (ROOT / "configs").glob("*.json") if p.name not in ("schema.json", "instances.json"))
#: Values that are refused, by path: of each kind, and each bound.
WRONG = {
    "array.tile": 0, "dma.engines": 257, "dma.bytes_per_ns": 0, "throttle.slow_rate": 1.5,
    "collectives.handshake_overlap": -0.1, "collectives.ring_bytes": -1, "topology.streams": 17,
    "topology.link_bytes_per_ns": 0, "dma.rows_per_engine": 0, "engines.vector.clock": 0, "dma.packet_gap": -1,
    "dma.queue_depth": 1, "dma.hardware.available": 1, "dma.stagger": 5, "dma.default_mode.sync": "magic",
    "topology.wiring": "star", "dma.static.packet_bytes": 1.5, "pe_rows": "many",
    "pe_columns": 48, "sbuf_partition_bytes": 1000, "psum_banks": 0, "partitions": 64, "hbm.chip_bytes": 1,
    "collectives.algorithms.mesh.gather_share": 0, "dma.software.trigger.sync": False,
}


@pytest.fixture(scope="module")
def validator():
    kind = jsonschema.validators.validator_for(SCHEMA)
    kind.check_schema(SCHEMA)
    return kind(SCHEMA)


@pytest.fixture(scope="module")
def trn2():
    return json.loads(cli("config", "show", "trn2").stdout)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_committed_configs_obey_the_schema(config, validator):
    errors = [f"{list(e.path)}: {e.message}" for e in validator.iter_errors(json.loads(config.read_text()))]
    assert not errors, errors[0]


@pytest.mark.parametrize("config, legal", [
    ({"inherits": "trn2", "name": "mine"}, True), ({"inherits": "trn2", "name": "mine", "target": "trn2"}, True),
    ({"inherits": "trn2"}, True), ({"name": "mine"}, False), ({"inherits": "trn2", "name": "mine", "dme": {}}, False)])
def test_a_config_that_inherits_is_as_legal_as_its_reader_says(config, legal, validator, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config))
    assert (not list(validator.iter_errors(config))) == legal
    said = cli("config", "validate", file, code=0 if legal else 3).stderr
    assert legal or "mine.json" in said
    assert "dme" not in config or "did you mean dma?" in said


def test_what_is_read_is_in_the_schema(validator, trn2):
    assert not list(validator.iter_errors(trn2))


@pytest.mark.parametrize("path", WRONG)
def test_schema_and_reader_refuse_the_same(path, validator, trn2, tmp_path):
    config = copy.deepcopy(trn2)
    at = config
    *before, last = path.split(".")
    for key in before:
        at = at[key]
    at.setdefault(last, {"unit": "", "source": "", "confidence": "assumed"})["value"] = WRONG[path]
    assert list(validator.iter_errors(config)), "the schema takes it"
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    said = cli("config", "validate", file, code=3).stderr
    assert "/" + "/".join([*before, last]) in said


@pytest.mark.parametrize("path", ["dma.bytes_per_ns", "hbm.bytes_per_ns", "array", "dma.hardware.first_packet",
                                  "engines.sync.wake", "collectives.barrier", "topology.rows", "pe_rows"])
def test_the_reader_misses_what_is_not_there(path, trn2, tmp_path):
    config = copy.deepcopy(trn2)
    at = config
    *before, last = path.split(".")
    for key in before:
        at = at[key]
    del at[last]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    said = cli("config", "validate", file, code=3).stderr
    assert "/" + "/".join([*before, last]) + ": is missing" in said
