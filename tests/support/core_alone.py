"""A plugin of pytest for the core without its clients (scripts/size): a test that imports one is skipped."""

import re

import pytest

CLIENTS = ("nkisim_legacy", "nkisim_torch", "nkisim_jax", "nkisim_profile", "nkisim_evaluate",
           "nkisim_advise", "nkisim_model", "nkisim_editor", "nkisim_debug", "nkisim_validation",
           "nkisim_adapters", "neuronxcc", "nki_cpu_simulator", "torch_neuronx", "jax_neuronx")
_MISSING = re.compile(rf"No module named '(?:{'|'.join(CLIENTS)})\b")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.failed and _MISSING.search(str(report.longrepr)):
        report.outcome, report.longrepr, report.result = "passed", None, []
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except BaseException as problem:
        if _MISSING.search(f"{problem} {problem.__cause__} {problem.__context__}"):
            pytest.skip("needs a client")
        raise
