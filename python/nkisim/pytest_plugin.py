"""pytest plugin: fixtures to run kernels on several generations and compare with a reference.

    @pytest.mark.nkisim(targets=["trn1", "trn2"], rtol=1e-2)
    def test_matmul(nki_run):
        nki_run(kernel, a, b).matches(a.T @ b)

The profile of every run of a failing test is attached to its report.
"""

import numpy as np
import pytest


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "nkisim(targets, rtol, atol, lnc): how the nki_run fixture runs kernels")
    from .install import install

    install()


def pytest_generate_tests(metafunc):
    if "nki_target" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("nkisim")
        targets = (marker.kwargs.get("targets") if marker else None) or ["trn2"]
        metafunc.parametrize("nki_target", targets)


class Checked:
    """A Result that knows how closely it must match."""

    def __init__(self, result, rtol, atol):
        self.result, self.rtol, self.atol = result, rtol, atol

    def __getattr__(self, name):
        return getattr(self.result, name)

    def matches(self, *expected):
        found = self.result.outputs
        found = found if isinstance(found, (list, tuple)) else [found]
        assert len(found) == len(expected), f"{len(found)} outputs, {len(expected)} expected"
        for i, (a, b) in enumerate(zip(found, expected)):
            np.testing.assert_allclose(np.asarray(a).astype(np.float64),
                                       np.asarray(b).astype(np.float64), rtol=self.rtol,
                                       atol=self.atol, err_msg=f"output {i}")
        return self


@pytest.fixture
def nki_run(request, nki_target):
    """run(kernel, *args, **kwargs) on the test's target."""
    from .session import run

    marker = request.node.get_closest_marker("nkisim")
    settings = dict(marker.kwargs) if marker else {}
    results = request.node.__dict__.setdefault("_nkisim_results", [])

    def call(kernel, *args, **kwargs):
        kwargs.setdefault("target", nki_target)
        kwargs.setdefault("grid", settings.get("lnc"))
        result = run(kernel, *args, **kwargs)
        results.append(result)
        return Checked(result, settings.get("rtol", 1e-2), settings.get("atol", 1e-3))

    return call


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        for result in item.__dict__.get("_nkisim_results", []):
            report.sections.append(("nkisim profile", result.report()))
