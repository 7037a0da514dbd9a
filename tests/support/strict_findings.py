"""Helpers for tests of --strict, which reports what AWS's SDK refuses: they run a kernel and return
its findings.

A finding is a line of a kernel that AWS's SDK refuses although nkisim can run it. With --strict the findings end the
run in one error; without it some of them are warnings.
"""

import warnings

import nkisim


def findings(call):
    """[(file, line, text)] of the findings in whose error a call ends; [] where it has none. An error of another
    kind is raised."""
    try:
        call()
    except nkisim.Error as problem:
        if problem.rule != "sdk_refuses":
            raise
        return list(problem.findings)
    return []


def findings_and_warnings(call):
    """(findings, texts of warnings) of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = findings(call)
    return found, [str(w.message) for w in caught]
