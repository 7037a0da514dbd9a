"""Builds the help() texts of nki.isa functions from the core's table of instructions."""

from types import FunctionType

from .. import _core

KINDS = tuple(about for about, _annotation, _written in _core.param_kinds())


def _parameter(name, kind, optional, choices):
    words = [KINDS[kind], "optional" if optional else "", " / ".join(choices)]
    return f"    {name:<22}{', '.join(word for word in words if word)}"


def _text(name, params, engines, about):
    lines = [f"{name}: {about}", "", f"  engines     {', '.join(engines)}", "  parameters"]
    lines += [_parameter(*parameter) for parameter in params]
    return "\n".join([*lines, "", f"`nkisim isa show {name}` has semantics, cost and sources."])


TEXTS = {name: _text(name, params, engines, about)
         for name, _number, params, engines, about, _exact in _core.ops()}


def describe(namespace):
    """Gives the functions of a module that are named as instructions, and say nothing yet, their help."""
    for name, text in TEXTS.items():
        function = namespace.get(name)
        if isinstance(function, FunctionType) and not function.__doc__:
            function.__doc__ = text
