"""Tests `nkisim explain`, which finds the rule that a run broke from the id or the text of an error
message.

A rule is a named constraint, such as operand_size. It has one id and one or more messages. The examples
that a rule shows are run: the wrong one breaks the rule, the right one breaks none. Every error shows its rule's id.
"""

import linecache
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
from running import PROGRAM, ROOT, cli

pytestmark = [pytest.mark.process]
#: (rule, form) of each message of the sources. A form has `...` where a run fills in names and numbers.
FORMS = re.findall(r'^NKISIM_MESSAGE\((\w+), "((?:[^"\\]|\\.)*)"\)$',
                   (ROOT / "src" / "report" / "messages.def").read_text(), re.M)
KERNEL = """@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    y = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
{body}
{end}    return out
"""


def rule_of(message):
    """The rule that `nkisim explain` finds; a message may begin with a dash."""
    done = subprocess.run([PROGRAM, "explain", "--json", "--", message], capture_output=True, text=True, check=False)
    found = re.search(r'"rule": "(\w+)"', done.stdout)
    return found[1] if found else ""


def filled(form):
    """A form as a run would fill it in."""
    parts = re.sub(r"\\(.)", r"\1", form).split("...")
    return "".join(part + f"zq{n}" * (n < len(parts) - 1) for n, part in enumerate(parts))


@pytest.mark.slow
def test_every_message_of_the_sources_leads_to_its_rule():
    """Where two rules have the same words, either is right; those of one that say nothing of their own are left out."""
    rules = {}
    for rule, form in FORMS:
        rules.setdefault(filled(form), set()).add(rule)
    telling = {text: of for text, of in rules.items() if len(re.sub(r"zq\d+|\W", "", text)) > 14}
    assert len(telling) > 750
    with ThreadPoolExecutor(2) as threads:
        found = dict(zip(telling, threads.map(rule_of, telling)))
    wrong = {text: (found[text], sorted(of)) for text, of in telling.items() if found[text] not in of}
    # A form that stands within another's words: the longer one is found.
    assert len(wrong) <= len(telling) // 100, wrong


def test_the_id_that_a_message_shows_is_its_rule():
    for rule in re.findall(r"^NKISIM_RULE\((\w+)", (ROOT / "isa" / "rules" / "rules.def").read_text(), re.M)[::10]:
        assert rule_of(f"tensor_copy: data is a [b]; c is required [{rule}]") == rule


#: Messages as beginners got them, without ids.
BEGINNERS = {
    "nc_matmul: moving is sbuf[128 x 1024] float32; at most 512 columns (N) on trn2 is required": "operand_size",
    "tensor_scalar: dst is in HBM; SBUF or PSUM is required": "operand_memory",
    "dma_copy: src is in PSUM; HBM or SBUF is required": "operand_memory",
    "nki.language has no sqroot; did you mean sqrt?": "unsupported_call",
    "fori_loop: body_fun is missing; fori_loop(lower, upper, body_fun, step) is required": "argument_missing",
    "activation: bias is sbuf[1 x 512] float32; a constant or a tensor of one column on 128 partitions is required":
        "operand_size",
    "add: y is str; a tile or a number is required": "tensor_required",
    "dma_copy: output out is undefined in 65536 of 65536 elements, first at [0, 0]: byte 0 of tensor t on partition 0 "
    "(allocated at k.py:6), which was never written": "undefined_value",
}


@pytest.mark.parametrize("message", BEGINNERS)
def test_beginners_messages_lead_to_their_rules(message):
    assert rule_of(message) == BEGINNERS[message]


# ---- advice ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def rules():
    import json

    return {rule["rule"]: rule for rule in json.loads(cli("explain", "--json").stdout)["rules"]}


def outcome(code, name):
    """The rule that an example breaks; "" where it runs."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    end = "" if "nl.store(out" in code else "    nl.store(out, t)\n"
    text, file = KERNEL.format(body=body, end=end), f"<example {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"nki": nki, "nisa": nisa, "nl": nl}
    exec(compile(text, file, "exec"), space)
    try:
        nkisim.run(space["kernel"], np.ones((128, 512), np.float32), target="trn2")
    except nkisim.Error as error:
        assert f"[{error.rule}]" in str(error).splitlines()[0]
        return error.rule
    return ""


def test_examples_break_their_rule_and_corrections_none(rules):
    shown = {name: rule for name, rule in rules.items() if "wrong" in rule}
    assert len(shown) >= 49
    for name, rule in shown.items():
        assert outcome(rule["wrong"], name) == name
        assert outcome(rule["right"], name) == "", name
        assert rule["wrong"] != rule["right"]


def test_the_commonest_rules_have_words_of_their_own(rules):
    own = [name for name, rule in rules.items() if sum(
        other["cause"] == rule["cause"] for other in rules.values()) == 1]
    assert len(own) >= 78
    for name in ("psum_bank", "operand_memory", "argument_missing", "operand_size", "undefined_value"):
        assert name in own
    said = cli("explain", "psum_bank").stdout
    assert "2 KiB" in said and "\n  wrong " in said and "\n  right " in said and "partition 0" not in said


def test_an_error_shows_its_rule_everywhere(tmp_path):
    bad = tmp_path / "k.jsonl"
    bad.write_text('{"nisa": 1, "target": "trn2"}\n{"i": "no_such"}\n')
    done = cli("run", bad, "--json", code=3)
    assert done.stderr.rstrip().endswith("[unknown_instruction]") and '"rule": "unknown_instruction"' in done.stdout
    assert cli("run", tmp_path / "none.nisa", code=3).stderr.rstrip().endswith("[file_unreadable]")
    assert "[command_line]" in cli("run", "--no-such", code=2).stderr
