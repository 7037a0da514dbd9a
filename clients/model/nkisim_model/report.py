"""Formats the prediction for a model as lines, and several as a table or a plot."""

from __future__ import annotations

from .between import Served, served
from .predict import Part, Prediction
from .speculation import Speculation

GIB = 2**30
MOST_CAUSES = 3  # that a difference names


def lines(p: Prediction, prompt: Prediction | None = None, speculation: Speculation | None = None) -> list[str]:
    """The lines for a person on one prediction, on a prompt's, and on speculative decoding."""
    s = p.share
    m = s.model
    fit = "" if s.fits else "  DOES NOT FIT"
    out = [f"model         {m.kind}, {m.layers} layers of {m.hidden}, on {s.target}: tp {s.tp}, LNC {s.lnc}, "
           + (f"{s.instances} instances, " if s.instances > 1 else "") + ("UltraServer, " if s.ultraserver else "")
           + (f"{s.ep} groups of experts, " if s.ep > 1 else "") + (f"{s.dp} copies, each " if s.dp > 1 else "") +
           f"batch {s.batch}, context {s.context}, {s.dtype}" + (f", {m.quantised.said}" if m.quantised else "")
           + (f", a cache of {s.cache_dtype}" if s.cache_dtype else ""),
           f"per token     {p.step_us / 1e3:.3f} ms, {p.tokens_per_second:.1f} tokens/s",
           f"interval      {_interval(p)}",
           f"served        {_served(p)}",
           f"per layer     {_layer(p)}",
           f"memory        {(s.weight_bytes + s.cache_bytes) / GIB:.2f} of {s.memory_bytes / GIB:.0f} GiB a rank: "
           f"weights {s.weight_bytes / GIB:.2f}, cache {s.cache_bytes / GIB:.2f}{fit}"]
    out += _remarks(p)
    if speculation is not None:
        out.append(_speculation(speculation))
    if prompt is not None:
        out += [f"first token   {prompt.step_us / 1e3:.3f} ms after a prompt of {prompt.prompt} tokens{_as(prompt)}, "
                f"{prompt.prompt * 1e6 / prompt.step_us:.0f} tokens/s; served after {_about(served(prompt))}",
                f"its layers    {_layer(prompt)}"]
    out += ["", *_parts(p)]
    best = p.parts[p.next_kernel]
    out += ["", f"next          {p.next_kernel}: {best.gain_us:.0f} us above its roof, at which there were "
            f"{s.dp * s.batch * 1e6 / (p.step_us - best.gain_us):.1f} tokens/s",
            f"not counted   {_not_counted(p)}"]
    if prompt is not None:
        out += ["", "of the prompt", *_parts(prompt)]
    return out


def _as(prompt):
    """The tokens that a prompt is padded to, where it is."""
    return f" (run as {prompt.run_as})" if prompt.run_as != prompt.prompt else ""


def _remarks(p: Prediction) -> list[str]:
    """The authors of the parts' kernels, and all that is padded, left out, or not known."""
    s, m = p.share, p.share.model
    out = [f"kernels       {'; '.join(f'{part}: {whose}' for part, whose in p.kernels.items())}"]
    if s.ep > 1:
        out.append(f"routing       {s.pairs} pairs of a token and an expert in the busiest group, as a router that "
                   "prefers none gives them")
    if padded := _padded(s):
        out.append(f"padded        {padded}")
    if m.left_out:
        out.append(f"left out      {'; '.join(m.left_out)}")
    if m.notes.assumed:
        out.append(f"taken         {', '.join(m.notes.assumed)}: not in the config, the defaults of {m.kind}")
    if m.unknown:
        out.append(f"not known     {', '.join(m.unknown)}: keys of the config that are not looked at")
    return out


def _padded(s) -> str:
    """The padding of the ranks."""
    m, said = s.model, []
    if s.padding:
        said.append(f"{s.padding} of {s.heads * s.tp} query heads")
    for name, own, whole in (("elements of a token", s.hidden, m.hidden),
                             ("columns of the MLP", s.inner * (s.tp // s.ep), m.inner),
                             ("rows of the vocabulary", s.vocabulary * s.tp, m.vocabulary),
                             ("tokens of the cache", s.tokens(False), s.context)):
        if own > whole:
            said.append(f"{own - whole} of {own} {name}")
    return ", ".join(said)


def _about(s: Served) -> str:
    found = s.interval
    return f"about {s.us / 1e3:.1f} ms ({found['low_us'] / 1e3:.1f} to {found['high_us'] / 1e3:.1f})"


def _served(p: Prediction) -> str:
    """Time per token with what a server adds."""
    s = served(p)
    return (f"{_about(s)}, {s.tokens_per_second:.1f} tokens/s, as a compiled graph behind a host: with "
            f"{s.boundaries_us / 1e3:.2f} ms of launches, {s.host_us / 1e3:.2f} of the host (few cases: "
            "docs/model-evidence.md)")


def _speculation(s: Speculation) -> str:
    """Time per token with speculative decoding."""
    return (f"speculation   {s.tpot_us / 1e3:.3f} ms per token: a step that verifies {s.tokens} tokens takes "
            f"{s.step.step_us / 1e3:.3f} ms and gives {s.expected:.2f} (acceptance {s.acceptance:g}; without the "
            "draft's time)")


def _interval(p: Prediction) -> str:
    """The interval of the time per token, and what it rests on."""
    found, why = p.interval, "; ".join(p.rests_on)
    return f"none ({why})" if found is None else \
        f"{found['low_us'] / 1e3:.3f} to {found['high_us'] / 1e3:.3f} ms; how many are within is not known ({why})"


def _not_counted(p: Prediction) -> str:
    """The costs that are no part of the prediction."""
    between = [said for name, said in (("host", "the host"), ("boundaries", "launches between kernels"))
               if name not in p.parts]
    return ", ".join([*between, "sampling other than the largest logit"])


def _layer(p: Prediction) -> str:
    """The time of a layer, and which were simulated."""
    how = "every layer simulated"
    if p.steady:
        count = len(p.layers_us)
        how = (f"mean of layers {p.sample.cold + 1} to {count}; the other {p.share.model.layers - count} like them, "
               f"+- {p.error:.2%} of the step")
    return f"{p.layer_us:.2f} us ({how})"


def _parts(p: Prediction) -> list[str]:
    """The table of the parts."""
    out = [f"{'part':<22}{'us':>10}{'share':>8}{'HBM MiB':>10}{'roof us':>10}{'gain us':>10}  bound"]
    for name, part in p.parts.items():
        if part.us or part.read_bytes:
            roofs = (f"{part.roof_us:.1f}", f"{part.gain_us:.1f}") if part.has_roof else ("-", "-")
            out.append(f"{name:<22}{part.us:>10.1f}{part.us / p.step_us:>8.1%}{part.read_bytes / 2**20:>10.1f}"
                       f"{roofs[0]:>10}{roofs[1]:>10}  {bound(part)}")
    return out


def difference(before: Prediction, after: Prediction, names) -> list[str]:
    """The effect of other kernels for the parts `names`: the causes of time that differ most."""
    out = [f"with --kernel {after.tokens_per_second:.1f} tokens/s, without {before.tokens_per_second:.1f} "
           f"({after.tokens_per_second / before.tokens_per_second - 1:+.1%})"]
    for name in names:
        old, new = before.parts[name], after.parts[name]
        out.append(f"  {name} {old.us:.1f} -> {new.us:.1f} us: {_causes(old, new)}"
                   f"; reads {old.read_bytes / 2**20:.1f} -> {new.read_bytes / 2**20:.1f} MiB")
    return out


def _causes(old: Part, new: Part) -> str:
    """The causes of time by which two parts differ most: wait_dma +12.0, dma_latency -3.1."""
    change = {cause: new.bounds.get(cause, 0.0) - old.bounds.get(cause, 0.0) for cause in {**old.bounds, **new.bounds}}
    most = sorted(change, key=lambda cause: (-abs(change[cause]), cause))[:MOST_CAUSES]
    return ", ".join(f"{cause} {change[cause]:+.1f}" for cause in most if abs(change[cause]) >= 0.05)


def comparison(points, names: tuple[str, str]) -> list[str]:
    """The predictions of two Points with a name each, and the parts by which they differ, the largest difference
    first."""
    before, after = (point.found for point in points)
    wide = max(map(len, names))
    out = [f"{name:<{wide}}{p.step_us / 1e3:>10.3f} ms{p.tokens_per_second:>10.1f} tokens/s" + more
           for name, p, more in ((names[0], before, ""), (names[1], after, "  "
                                 f"{after.tokens_per_second / before.tokens_per_second - 1:+.1%}"))]
    for said, of in (("first token", "prompt"), ("speculation", "speculation")):
        old, new = (getattr(point, of) for point in points)
        if old is not None:
            times = [(each.step_us if of == "prompt" else each.tpot_us) / 1e3 for each in (old, new)]
            out.append(f"{said:<{wide}}{times[0]:>10.3f} -> {times[1]:.3f} ms  {times[1] / times[0] - 1:+.1%}")
    out += ["", f"{'part':<22}{'us':>10}{'':4}{'us':<10}{'change':>10}{'roof us':>18}  causes"]
    parts = {name: (before.parts.get(name, Part()), after.parts.get(name, Part()))
             for name in {**before.parts, **after.parts}}
    for name, (old, new) in sorted(parts.items(), key=lambda item: -abs(item[1][1].us - item[1][0].us)):
        if old.us or new.us:
            roofs = f"{old.roof_us:.1f} -> {new.roof_us:.1f}" if old.has_roof or new.has_roof else "-"
            out.append(f"{name:<22}{old.us:>10.1f} -> {new.us:<10.1f}{new.us - old.us:>+10.1f}{roofs:>18}  "
                       f"{_causes(old, new)}")
    return out


def bound(part: Part) -> str:
    """The cause of most of a part's time, and its share: dma_latency 41 %."""
    return f"{part.bound} {part.bounds[part.bound] / part.us:.0%}" if part.bound else ""


def table(points) -> list[str]:
    """One line for each Point of a sweep."""
    more = any(p.prompt for p in points), any(p.speculation for p in points)
    return [head(*more), *(row(point, *more) for point in points)]


def head(prompted: bool, speculated: bool = False) -> str:
    """The names of the columns of row()."""
    return (f"{'tp':>4}{'batch':>7}{'context':>9}{'ms/token':>10}{'tokens/s':>10}{'us/layer':>10}{'served':>9}"
            + f"{'GiB':>8}" + f"{'ms first':>10}" * prompted + f"{'speculated':>12}" * speculated + "  next")


def row(point, prompted: bool, speculated: bool = False) -> str:
    """The line of a Point."""
    where, p = f"{point.tp:>4}{point.batch:>7}{point.context:>9}", point.as_json()
    if "tpot_us" not in p:
        return f"{where}  {p['error']}"
    return (f"{where}{p['tpot_us'] / 1e3:>10.3f}{p['tokens_per_second']:>10.1f}"
            f"{p['layer_us']:>10.1f}{p['served']['tpot_us'] / 1e3:>9.1f}"
            f"{(p['weight_bytes'] + p['cache_bytes']) / GIB:>8.2f}"
            + (f"{p['ttft_us'] / 1e3:>10.3f}" if prompted else "")
            + (f"{p['speculation']['tpot_us'] / 1e3:>12.3f}" if speculated else "") + f"  {p['next_kernel']}"
            + ("" if p["fits"] else "  DOES NOT FIT"))


def plot(found: list[Prediction], path: str) -> None:
    """Time per token as a stack of parts, a bar for each configuration: .png, .svg or .pdf."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(max(5.0, 1.05 * len(found) + 3.5), 4.5), layout="constrained")
    names = [n for n in found[0].parts if any(p.parts[n].us for p in found)]
    bottom = [0.0] * len(found)
    for n, name in enumerate(names):
        heights = [p.parts[name].us / 1e3 for p in found]
        axes.bar(range(len(found)), heights, bottom=bottom, label=name, color=plt.cm.tab10(n % 10), width=0.6)
        bottom = [a + b for a, b in zip(bottom, heights)]
    for at, p in enumerate(found):
        axes.annotate(f"{p.step_us / 1e3:.2f} ms\n{p.tokens_per_second:.0f} tokens/s", (at, bottom[at]),
                      ha="center", va="bottom", fontsize=8, xytext=(0, 2), textcoords="offset points")
    axes.set_xticks(range(len(found)), [f"tp {p.share.tp}\nbatch {p.share.batch}\ncontext {p.share.context}"
                                        for p in found])
    axes.set_xlim(-0.6, len(found) - 0.4)
    axes.set_ylabel("ms per token")
    axes.set_ylim(0, 1.15 * max(bottom))
    axes.set_title(f"{found[0].share.model.kind}, {found[0].share.model.layers} layers, {found[0].share.target}")
    figure.legend(loc="outside right center", fontsize=8, reverse=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
