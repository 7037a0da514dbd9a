"""Joins the timelines of many kernel runs into one (nkisim.Timeline)."""

import collections
import itertools
import os

from ..run.session import LISTENERS, SESSIONS

#: One run: the kernel's name, its simulated time, the span it belongs to, its session's file.
Call = collections.namedtuple("Call", "name ns span session")


class Timeline:
    """Collects the kernels that run, one after the other as on one device.

        with nkisim.Timeline() as timeline:
            for step in range(3):
                model.decode(...)
                timeline.mark(f"decode {step}")
        print(timeline.report())
        timeline.write("steps.pftrace")

    What the host does between them takes no time here. calls: a Call for each run.
    """

    def __init__(self):
        self.calls = []
        self._folder = None
        self._since = 0

    def __enter__(self):
        import tempfile

        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="nkisim_timeline")
        numbers = itertools.count(len(self.calls))
        SESSIONS.append(lambda: os.path.join(self._folder.name, f"{next(numbers)}.npz"))
        LISTENERS.append(self._take)
        return self

    def __exit__(self, *_):
        LISTENERS.remove(self._take)
        SESSIONS.pop()

    def _take(self, result):
        if result.latency_ns is None:
            raise ValueError(f"{result.name} ran for its values only; a timeline needs the times "
                             "(NKISIM_TIMING=0 is set?)")
        self.calls.append(Call(result.name, result.latency_ns, "", result.files.get("session")))

    def mark(self, span):
        """Gives a name to everything since the last mark."""
        self.calls[self._since:] = [c._replace(span=span) for c in self.calls[self._since:]]
        self._since = len(self.calls)

    @property
    def total_us(self):
        return sum(c.ns for c in self.calls) / 1e3

    def spans(self):
        """{span: microseconds} in order; "" is what was not marked."""
        out = {}
        for call in self.calls:
            out[call.span] = out.get(call.span, 0.0) + call.ns / 1e3
        return out

    def kernels(self, span=None):
        """{kernel: (calls, microseconds)} of a span, or of all, the costliest first."""
        found = {}
        for call in self.calls:
            if span is None or call.span == span:
                count, us = found.get(call.name, (0, 0.0))
                found[call.name] = count + 1, us + call.ns / 1e3
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))

    def report(self):
        """The time of each span, and the kernels of the last."""
        spans = self.spans()
        lines = [f"{name or 'not marked':28} {us:12.3f} us" for name, us in spans.items()]
        if not spans:
            return "no kernel ran"
        last = next(reversed(spans))
        lines.append(f"\n{last or 'kernel':28} {'calls':>6} {'us':>12} {'share':>8}")
        for name, (count, us) in self.kernels(last).items():
            lines.append(f"{name:28} {count:6} {us:12.3f} {100 * us / spans[last]:7.1f} %")
        return "\n".join(lines)

    def _bars(self):
        """Slices of the spans, the kernels and what these consist of, and instants."""
        from nkisim_profile import timeline as forms  # not next to every build's package
        from nkisim_profile.session import Session

        bars, points, now, spans = [], [], 0, {}
        for call in self.calls:
            end = now + round(call.ns)
            bars.append((0, "Kernels", call.name, now, end, {"latency_ns": round(call.ns)}))
            spans[call.span] = spans.get(call.span, (now,))[0], end
            session = Session(call.session)
            bars += [(core, track, name, start + now, stop + now, args)
                     for core, track, name, start, stop, args in forms.slices(session)]
            points += [(core, track, name, time + now)
                       for core, track, name, time in forms.instants(session)]
            now = end
        named = [(0, "Spans", name, *place, {}) for name, place in spans.items() if name]
        return named + bars, points

    def write(self, path):
        """Writes all runs as one timeline: Chrome's trace events if the path ends in .json, else
        Perfetto's; gives the path."""
        from nkisim_profile import timeline as forms
        from nkisim_work.files import replace

        make = forms.write_chrome if str(path).endswith(".json") else forms.write_perfetto
        content = make(*self._bars())
        return replace(path, content)
