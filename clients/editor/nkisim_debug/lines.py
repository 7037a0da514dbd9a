"""Formats the state of a simulated run at an instant as text, and as HTML for a notebook."""

import html


def doing(row, place=True):
    """Says what an engine runs, or what its next instruction waits for; `place`: with source lines and its end."""
    at = row["runs"] or row["next"]
    if at is None:
        return "is done"
    what = at["instruction"] + (f" {at['source']}" if place else "")
    if row["runs"]:
        return f"runs {what}" + (f" until {at['end_us']:.3f} us" if place else "")
    return f"waits for {row['waits_for']}, then {what}"


def engine_lines(state):
    """Lines of what each engine does, and of the transfers under way."""
    for row in state["engines"]:
        yield f"core {row['core']} {row['engine']:<7} {doing(row)}"
    for row in state["under_way"]:
        end = "" if row["end_us"] is None else f", until {row['end_us']:.3f} us"
        yield f"core {row['core']} under way: {row['instruction']} {row['source']} since {row['start_us']:.3f} us{end}"


def html_of(where, watched, state):
    """The instant, the watches and what each engine does."""
    text = "".join(f"<li>{html.escape(line)}</li>" for line in engine_lines(state))
    watches = "".join(f"<li><code>{html.escape(name)}</code> = {html.escape(value)}</li>" for name, value in watched)
    return f"<p><b>{html.escape(where)}</b></p><ul>{watches}{text}</ul>"
