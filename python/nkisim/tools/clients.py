"""Lets each installed client be imported as nkisim.NAME: nkisim.profile is the package nkisim_profile."""

import importlib
import importlib.machinery
import importlib.util
import sys

NAMES = ("adapters", "advise", "debug", "editor", "evaluate", "jax", "legacy", "model", "profile", "torch",
         "validation")


class _Loader:
    """Gives a module that has been imported by its own name, and stays what it is."""

    def __init__(self, real):
        self._real = real

    def create_module(self, spec):
        module = importlib.import_module(self._real)
        self._own = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._own


class _Finder:
    """The first finder to be asked: else a module of a client would be found in its folder, and executed again."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        client = name[len("nkisim."):] if name.startswith("nkisim.") else ""
        if client.split(".")[0] not in NAMES or importlib.util.find_spec(f"nkisim_{client}") is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(f"nkisim_{client}"))


sys.meta_path.insert(0, _Finder)
