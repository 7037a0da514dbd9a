"""Tests docs/mistakes.md: its ten wrong kernels end in messages with links to their sections; the right ones run."""

import importlib.util
import pathlib
import re
import warnings

import numpy as np
import pytest

import nkisim
from nkisim.values import links
from running import ROOT

nkisim.install()

PAGE = ROOT / "docs" / "mistakes.md"
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
X = np.random.default_rng(0).random((128, 512)).astype(np.float32)
SECTION = re.compile(r"^## (\w+)\n(?:(?!^## ).)*?```python\n(.*?)```\n\n```python\n(.*?)```", re.M | re.S)
SECTIONS = {m[1]: (m[2], m[3]) for m in SECTION.finditer(PAGE.read_text())}
RESULTS = {"argument_missing": np.exp(X), "tensor_required": np.exp(X), "unsupported_call": X.sum(1, keepdims=True),
           "values_while_recording": X * X[0, 0], "tensor_partitions": np.exp(X.reshape(512, 128)),
           "operand_memory": X + 1, "operand_shape": X[:, :256], "slice_out_of_bounds": X,
           "kernel_result": np.exp(X), "over_capacity": X[:, :128].T @ X}


@pytest.fixture
def of(tmp_path):
    """The kernel of a text, in a file of its own."""
    def load(text):
        path = tmp_path / "kernel.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location("mistaken", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel, next((n for n, line in enumerate((HEAD + text).splitlines(), 1)
                                    if line.endswith("# wrong")), None)
    return load


def test_the_page_has_the_ten():
    assert tuple(SECTIONS) == links.MISTAKES and len(links.MISTAKES) == 10


@pytest.mark.parametrize("rule", links.MISTAKES)
def test_a_mistake_ends_in_its_link(rule, of, monkeypatch):
    kernel, line = of(SECTIONS[rule][0])
    monkeypatch.setenv("NKISIM_DOCS", "https://docs.example.com/nkisim/")
    with pytest.raises(nkisim.Error) as caught:
        kernel(X)
    problem = caught.value
    assert (problem.rule, problem.kernel_line) == (rule, line), problem
    last = str(problem).splitlines()[-1]
    assert last == f"  help: https://docs.example.com/nkisim/mistakes/#{rule}"


@pytest.mark.parametrize("rule", links.MISTAKES)
def test_the_kernel_next_to_it_is_right(rule, of):
    kernel, line = of(SECTIONS[rule][1])
    with warnings.catch_warnings():
        if rule != "over_capacity":  # which computes the same again and again
            warnings.simplefilter("error")
        np.testing.assert_allclose(kernel(X), RESULTS[rule], 1e-5)
    assert line is None


def test_where_a_link_leads(monkeypatch, tmp_path):
    monkeypatch.delenv("NKISIM_DOCS", raising=False)
    monkeypatch.setattr(links, "_ROOT", tmp_path)
    monkeypatch.setattr(links, "_INSTALLED", tmp_path / "installed")
    assert links.page_of("operand_memory") is None
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "mistakes.md").write_text("")
    assert links.page_of("operand_memory") == f"{tmp_path}/installed/mistakes.md#operand_memory"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "mistakes.md").write_text("")
    assert links.page_of("operand_memory") == f"{tmp_path}/docs/mistakes.md#operand_memory"
    assert links.page_of("operand_memory", urls_only=True) is None
    built = tmp_path / "build" / "site" / "mistakes" / "index.html"
    built.parent.mkdir(parents=True)
    built.write_text("")
    assert links.page_of("operand_memory") == f"{built.as_uri()}#operand_memory"
    for base, link in (("https://d.example", "https://d.example/glossary/#rules"),
                       ("file:///site/", "file:///site/glossary/index.html#rules"),
                       ("/site", "/site/glossary/index.html#rules")):
        monkeypatch.setenv("NKISIM_DOCS", base)
        assert links.page_of("axes") == link


def test_every_section_is_a_rule():
    rules = (pathlib.Path(ROOT) / "isa" / "rules" / "rules.def").read_text()
    assert all(f"NKISIM_RULE({rule}," in rules for rule in links.MISTAKES)
