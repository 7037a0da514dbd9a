"""Tests that mistakes put into the examples' kernels are reported, and that the unchanged examples
give no warning.
"""

import ast

import pytest

import seeded

#: A rule speaks of these each time; of the others unless they compute something else within the rules.
ALWAYS = {"begun_anew", "more_partitions", "not_given", "one_more", "other_memory", "other_operator", "read_too_soon",
          "shifted", "too_narrow", "too_short", "turned_round", "written_later"}


@pytest.mark.slow
@pytest.mark.parametrize("unread", [False, True])
def test_random_mistakes_are_named(unread, monkeypatch):
    """At least 95 of 100, by default too: 97 on average over larger draws."""
    monkeypatch.setattr(seeded, "UNREAD", unread)
    judged, alarms = seeded.survey(3000, 120)
    assert alarms == {}
    silent = [(seed, kind, name) for seed, (name, kind, state, _) in judged.items() if state == "silent"]
    assert [s for s in silent if s[1] in ALWAYS] == []
    assert len(silent) <= 6, silent


def test_an_edit_changes_the_source():
    drawn = [d for d in map(seeded.mistake, range(200)) if d]
    assert {kind for _, kind, _, _ in drawn} == {edit.__name__ for edit in seeded.EDITS}
    assert all(text != ast.unparse(tree) for _, _, text, tree in drawn)
