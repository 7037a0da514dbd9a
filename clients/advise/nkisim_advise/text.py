"""Formats the result of `nkisim advise` as text."""

from nkisim_work.times import time_text


def percent(gain):
    return f"{-100 * gain:+.1f} %"


def between(interval):
    if interval is None:
        return ""
    low, high = sorted(interval)
    return f" ({percent(high)} to {percent(low)} in 4 of 5 cases)"


def lines(advice):
    out = [f"latency      {time_text(advice.latency_us)} on {advice.target}", f"bottleneck   {advice.bottleneck}"]
    if not advice.findings:
        out.append("advice       nothing that was tried helps")
    for n, f in enumerate(advice.findings, 1):
        out.append(f"{n:>2}. {percent(f.gain)}{between(f.interval)}  {short(f.edit.line)} {f.edit.what}")
        out.append(f"    {f.edit.say}")
    if len(advice.combined) > 1 or advice.combined and advice.combined[0] is not advice.findings[0].edit:
        numbers = [str(1 + [f.edit for f in advice.findings].index(e)) for e in advice.combined]
        out.append(f"together     {', '.join(numbers)}: {time_text(advice.combined_us)}, "
                   f"{percent(1 - advice.combined_us / advice.latency_us)}{between(advice.combined_interval)}")
    after = "with these " if advice.combined else ""
    out.append(f"bounds       {after}" + ", ".join(f"{what} alone takes {us:.1f} us" for what, us in advice.bounds))
    out.append(f"tried        {advice.tried} variants: {advice.refused} that the machine or its memory refuses, "
               f"{advice.differ} with other values"
               + (f"; {advice.left} not tried for lack of time (--effort)" if advice.left else "")
               + f"; {advice.seconds:.1f} s, {advice.processor_seconds / advice.own_seconds:.1f} times a run")
    return out


def short(line):
    return line.rsplit("/", 1)[-1]
