"""Serves the packages through which a framework calls kernels: nkisim_torch, nkisim_jax."""


def any_leaf(value, test):
    """True if `test` holds for any value in nested lists, tuples and dictionaries."""
    if isinstance(value, (list, tuple)):
        return any(any_leaf(v, test) for v in value)
    if isinstance(value, dict):
        return any(any_leaf(v, test) for v in value.values())
    return test(value)


def require_package(package, name, install):
    """Says in one line what `name` cannot do without."""
    try:
        return __import__(package)
    except ImportError as problem:
        if (problem.name or "").split(".")[0] != package:
            raise
        raise ImportError(f"{name} needs {install}, which is not installed: pip install {package}",
                          name=package) from None
