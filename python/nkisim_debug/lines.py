"""Formats the state of a simulated run at an instant as text, and as HTML for a notebook."""

import html


def engine_lines(state):
    """Lines of what each engine runs, or of what its next instruction waits for."""
    for row in state["engines"]:
        runs, following = row["runs"], row["next"]
        text = f"core {row['core']} {row['engine']:<7} "
        if runs:
            text += f"runs {runs['instruction']} {runs['source']} until {runs['end_us']:.3f} us"
        elif following:
            text += f"waits for {row['waits_for']}, then {following['instruction']} {following['source']}"
        else:
            text += "is done"
        yield text
    for row in state["under_way"]:
        end = "" if row["end_us"] is None else f", until {row['end_us']:.3f} us"
        yield f"core {row['core']} under way: {row['instruction']} {row['source']} since {row['start_us']:.3f} us{end}"


def html_of(where, watched, state):
    """The instant, the watches and what each engine does."""
    text = "".join(f"<li>{html.escape(line)}</li>" for line in engine_lines(state))
    watches = "".join(f"<li><code>{html.escape(name)}</code> = {html.escape(value)}</li>" for name, value in watched)
    return f"<p><b>{html.escape(where)}</b></p><ul>{watches}{text}</ul>"
