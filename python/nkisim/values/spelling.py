"""Suggests for a misspelt name the known names that it most resembles."""


def similar_names(name, known):
    """"did you mean sqrt?" of the names that are nearest, at most three that are as near; "" where none is."""
    import difflib

    name, known = name.lower(), {one.lower(): one for one in known}
    close = difflib.get_close_matches(name, known, 3, 0.6)
    ratios = [difflib.SequenceMatcher(None, name, one).ratio() for one in close]
    best = [known[one] for one, ratio in zip(close, ratios) if ratio > ratios[0] - 0.05]
    return f"did you mean {', '.join(best[:-1])}{' or ' * (len(best) > 1)}{best[-1]}?" if best else ""
