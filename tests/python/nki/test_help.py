"""Tests that help() has a text for every public name."""

import importlib
import inspect

import pytest

import nkisim

nkisim.install()

MODULES = ("nkisim", "nki", "nki.isa", "nki.language", "nki.collectives", "nki.typing", "nki.tensor",
           "nki.dtype", "neuronxcc.nki", "neuronxcc.nki.isa", "neuronxcc.nki.language",
           "nki_cpu_simulator", "neuron_dtypes", "nkisim_profile", "nkisim_validation")


def undocumented(module):
    """Callables of a module without a text of their own: one of their class's is of all its values."""
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if not inspect.getdoc(value):
            yield name


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_says_what_it_is(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert list(undocumented(module)) == []


def test_an_instruction_says_its_rules():
    import nki.isa as nisa
    import neuronxcc.nki.isa as legacy

    for function in (nisa.nc_matmul, nisa.tensor_scalar, legacy.tensor_scalar):
        said = inspect.getdoc(function)
        assert said.startswith(function.__name__ + ": ")
        for part in ("engines", "parameters", "dst", "tensor written", "nkisim isa show"):
            assert part in said, part


def test_what_users_call_is_annotated():
    for function in (nkisim.run, nkisim.install, nkisim.Kernel.run, nkisim.Result.save,
                     nkisim.Result.perfetto):
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, function
        for parameter in signature.parameters.values():
            if parameter.name != "self":
                assert parameter.annotation is not inspect.Parameter.empty, (function, parameter)
