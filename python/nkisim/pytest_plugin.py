"""Loads the pytest plugin under its public name, as in `-p nkisim.pytest_plugin`: see tools/pytest_plugin."""

pytest_plugins = ["nkisim.tools.pytest_plugin"]
