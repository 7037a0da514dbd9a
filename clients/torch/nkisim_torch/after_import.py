"""Runs functions once a module has been imported, now or later."""

import importlib.util
import sys

_actions = {}  # module name -> what to call


class _Watcher:
    """A meta-path finder that lets the others find a module and acts when it has been executed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        action = _actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if execute is not None:
            spec.loader.exec_module = lambda module: (execute(module), action())
        return spec


def after_import(name, action):
    """Calls `action` when module `name` has been imported, at once if it has been already."""
    if name in sys.modules:
        action()
        return
    _actions[name] = action
    if _Watcher not in sys.meta_path:
        sys.meta_path.insert(0, _Watcher)
