"""The findings of --strict in a kernel, as a list, and those that are only noted without it."""

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


def said(call):
    """(findings, texts of warnings) of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = findings(call)
    return found, [str(w.message) for w in caught]
