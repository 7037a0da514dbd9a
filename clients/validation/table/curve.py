"""Compares DMA throughput by payload size: the model, the published curve and the published rates."""
from functools import partial

from programs import single

# aws-neuron-sdk nki/get-started/about/nki-dma-overview.rst, figure 1: bytes per partition and percent
# of the rate at 32 KiB. Read off the picture by fitting circles of the markers' radius to its pixels
# (1 pixel is 0.24 %, the fits are good to a tenth of that; the marker at 32 is cut off by the axis and
# was fitted by its upper half); zero is the lowest tick of eight, which a straight line fits to 0.02
# pixels. The figure names no generation: taken to be trn2's.
PUBLISHED = {32: 1.27, 64: 2.53, 128: 5.11, 256: 10.3, 512: 20.7, 1024: 42.4, 2048: 81.4, 4096: 96.7,
             8192: 98.3, 16384: 99.1, 32768: 100.0}
# aws-neuron-sdk nki/deep-dives/nki-dma-bandwidth-guide.rst: 17, 23 and 33 GB/s of each of 16 engines.
ACHIEVABLE = {"trn1": 272, "trn2": 368, "trn3": 528}
FEW, MANY = 8, 40  # transfers: their difference is free of start and end


def program(target, size, count):
    """Loads of [128, size] bytes through a ring of static descriptors, into tiles of their own."""
    return partial(single.loads, target=target, shape=(128, size), dtype="uint8", count=count,
                   engine="sync", dge_mode="none")


def measure(figures):
    """{target: {bytes per partition: bytes per ns}}; figures(program) simulates."""
    def rate(target, size):
        few, many = (figures(program(target, size, n))["total_time"] for n in (FEW, MANY))
        return (MANY - FEW) * 128 * size / ((many - few) * 1e9)
    return {target: {size: rate(target, size) for size in PUBLISHED} for target in ACHIEVABLE}


def errors(rates):
    """Percent: of every size of the curve, relative to it; of every generation's rate at 32 KiB."""
    full = max(PUBLISHED)
    shape = {size: 100 * (100 * rates["trn2"][size] / rates["trn2"][full] / percent - 1)
             for size, percent in PUBLISHED.items()}
    return shape, {t: 100 * (rates[t][full] / value - 1) for t, value in ACHIEVABLE.items()}


def text(rates):
    shape, total = errors(rates)
    full = max(PUBLISHED)
    lines = ["## DMA throughput\n",
             "Loads of 128 partitions through one ring of static descriptors. The curve is relative to "
             "32 KiB per\npartition (nki-dma-overview.rst, figure 1, read off the picture to a tenth of a "
             "pixel; it names no\ngeneration and is taken to be trn2's); the rates are AWS's achievable ones "
             "(nki-dma-bandwidth-guide.rst).\n",
             "![DMA throughput against payload size](dma.png)\n",
             "| bytes per partition | " + " | ".join(f"{s}" for s in PUBLISHED) + " |",
             "|---|" + "--:|" * len(PUBLISHED),
             "| published, % | " + " | ".join(f"{p:g}" for p in PUBLISHED.values()) + " |",
             "| trn2 simulated, % | " + " | ".join(
                 f"{100 * rates['trn2'][s] / rates['trn2'][full]:.3g}" for s in PUBLISHED) + " |",
             "| error, % | " + " | ".join(f"{e:+.1f}" for e in shape.values()) + " |\n",
             "| at 32 KiB, GB/s | published | simulated | error |\n|---|--:|--:|--:|"]
    lines += [f"| {t} | {value} | {rates[t][full]:.0f} | {total[t]:+.1f} % |"
              for t, value in ACHIEVABLE.items()]
    return "\n".join(lines) + "\n"


def plot(rates, path):
    """Left: shape of the curve; right: GB/s of the three generations."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 4), dpi=80)
    full = max(PUBLISHED)
    colours = {"trn1": "tab:blue", "trn2": "tab:orange", "trn3": "tab:green"}
    for axes, scale in ((left, lambda t: 100 / rates[t][full]), (right, lambda t: 1)):
        for target, curve in rates.items():
            axes.plot(list(curve), [r * scale(target) for r in curve.values()], color=colours[target],
                      label=f"{target}, simulated", linewidth=1.4)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes per partition (128 partitions)")
        axes.grid(alpha=0.3)
    left.plot(list(PUBLISHED), list(PUBLISHED.values()), "ko", markersize=4, label="published")
    left.set(ylabel="% of the rate at 32 KiB", title="Shape")
    for target, value in ACHIEVABLE.items():
        right.axhline(value, color=colours[target], linestyle=":", linewidth=1)
    right.set(ylabel="GB/s", title="Rate; dotted: published achievable rate")
    right.set_ylim(bottom=0)
    left.legend()
    right.legend()
    figure.tight_layout()
    figure.savefig(path)
