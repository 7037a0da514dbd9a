"""Tests that the settings of `nkisim evaluate` are as documented."""

import inspect
import re

from nkisim_evaluate import Settings
from nkisim_evaluate.api import evaluate

DEFAULTS = {"60": 60.0, "4 GiB": 4 * 1024 ** 3, "True": True, "False": False}


def test_the_documented_settings_are_the_defaults():
    """evaluate's own words, "name (meaning, default)", against what its settings take."""
    documented = re.search(r"Settings: (.*?)\. Fields", " ".join(evaluate.__doc__.split()))[1]
    said = {name: words.split(", ")[-1] for name, words in re.findall(r"(\w+)(?: \(([^)]*)\))?(?:,|$)", documented)}
    parameters = {name: p.default for name, p in inspect.signature(Settings).parameters.items()}
    del parameters["reference"]
    assert list(said) == list(parameters)
    assert {name for name, words in said.items() if words in DEFAULTS} == {"timeout", "memory", "values", "advise"}
    for name, words in said.items():
        assert parameters[name] == DEFAULTS[words] if words in DEFAULTS else not parameters[name], name
