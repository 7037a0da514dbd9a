"""Tests how a user chooses which broken rules are warnings: rules= and its environment variables."""

import warnings

import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def halves(x):
    """Loads both halves, and takes the first for both."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    parts = []
    for i in range(2):
        t = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, 256 * i:256 * i + 256])
        parts.append(t)
    for i in range(2):
        nisa.dma_copy(dst=out[:, 256 * i:256 * i + 256], src=parts[0])
    return out


X = np.zeros((128, 512), np.float32)


def warnings_of(**how):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        nkisim.run(halves, X, target="trn2", **how)
    return [str(w.message) for w in found]


def test_nothing_is_reported_unasked():
    assert warnings_of() == []


def test_unread():
    [text] = warnings_of(rules={"unread": True})
    assert "nothing reads its result in 1 of the 2 times that it runs" in text
    assert text.endswith("[result_unread]") and "test_chosen_rules.py:" in text
    assert warnings_of(rules={"unread": True, "suppress": "result_unread"}) == []


def test_by_the_environment(monkeypatch):
    monkeypatch.setenv("NKISIM_UNREAD", "1")
    assert len(warnings_of()) == 1
    assert warnings_of(rules={"unread": False}) == []
    monkeypatch.setenv("NKISIM_SUPPRESS", "result_lost,result_unread")
    assert warnings_of() == []


def test_an_error(monkeypatch):
    with pytest.raises(nkisim.Error, match="nothing reads its result") as caught:
        warnings_of(rules={"error": ["result_unread"]})
    assert caught.value.rule == "result_unread"
    assert caught.value.kernel_line == halves.func.__code__.co_firstlineno + 7
    monkeypatch.setenv("NKISIM_ERROR", "result_unread")
    with pytest.raises(nkisim.Error, match="nothing reads its result"):
        warnings_of()


@pytest.mark.parametrize("rules, text", [
    ({"suppress": ["lost"]}, "suppress is lost; a rule that nkisim explain lists is required"),
    ({"suppress": ["over_capacity"]}, "suppress is over_capacity, which is an error"),
    ({"strict": True}, "rules is 'strict'; suppress, error or unread is required"),
])
def test_what_is_no_rule(rules, text):
    with pytest.raises(nkisim.Error, match=text):
        warnings_of(rules=rules)


@nki.jit
def loaded_twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for half in (0, 256, 0):
        nisa.dma_copy(dst=tile[:, 0:256], src=x[:, half:half + 256])
    nisa.dma_copy(dst=tile[:, 256:512], src=x[:, 256:512])
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.process
@pytest.mark.parametrize("command", [False, True])
def test_a_run_of_time_alone_looks_for_lost_results_where_it_is_asked(command, tmp_path):
    """By a call and by the command: a look takes a fifth of such a run."""
    def found(**rules):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if not command:
                nkisim.run(loaded_twice, X, target="trn2", timing="only", rules=rules)
                return [str(w.message) for w in said]
            nkisim.run(loaded_twice, X, target="trn2").save(tmp_path / "k.nisa", compiled=False)
        options = [part for name, rule in rules.items() for part in (f"--{name}", *([] if rule is True else [rule]))]
        done = cli("run", tmp_path / "k.nisa", "--timing-only", *options, code=None)
        if done.returncode:
            raise nkisim.Error(done.stderr, rule="result_lost")
        return done.stderr.splitlines()

    assert found() == []
    assert ["[result_lost]" in text for text in found(unread=True)] == [True]
    with pytest.raises(nkisim.Error, match="its result is lost"):
        found(error="result_lost")
