"""Holds the programs that users start: the command line, the pytest plugin, install()."""
