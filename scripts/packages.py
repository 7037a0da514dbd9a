"""Finds our Python packages and tests: the core's, and those of each client in clients/CLIENT/."""

import pathlib


def sources(root):
    """The folders that hold packages, as they belong on Python's path."""
    return [root / "python", *sorted(p for p in (root / "clients").glob("*") if p.is_dir())]


def packages(root):
    """{package: its folder}."""
    return {p.parent.name: p.parent for folder in sources(root) for p in sorted(folder.glob("*/__init__.py"))}


def modules(root):
    """The Python files of all packages."""
    return [p for name, folder in sorted(packages(root).items()) for p in sorted(folder.rglob("*.py"))]


def path(root):
    """PYTHONPATH of a source tree."""
    return ":".join(map(str, sources(root)))


def tests(root):
    """The folders of tests in Python: the core's subjects, and each client's."""
    found = [*(root / "tests" / "python").glob("*"), root / "tests" / "hazards",
             *(root / "clients").glob("*/tests")]
    return sorted(p for p in found if p.is_dir() and p.name != "__pycache__")


def test_files(root):
    """Names of the files of tests, from `root` on."""
    return [p.relative_to(pathlib.Path(root)).as_posix() for folder in tests(root)
            for p in sorted(folder.rglob("test_*.py"))]
