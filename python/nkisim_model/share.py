"""The share of one rank in a model: sizes of its tensors, and whether they fit its memory."""

from __future__ import annotations

import dataclasses

from nkisim.record.targets import chip_of, find_target, hbm_bytes

from .architecture import Architecture, ModelError

DTYPE_BYTES = {"bfloat16": 2, "float16": 2}
MOST_RANKS = 4096  # of a world
#: Chips of an instance along a row and in all, instances of an UltraServer (1: the links of an
#: instance reach as far). Source: AWS's architecture pages, Trn2 and Trn3.
CHIPS_OF = {"trn2": (4, 16, 4), "trn3": (64, 64, 1)}
ROUND = 128  # the kernels' tiles have so many partitions


@dataclasses.dataclass(frozen=True)
class Share:
    """Sizes of one rank of `tp`: tensors are sharded over heads, the MLP's width and the vocabulary.

    hidden: elements of a token, padded to whole tiles where the kernels take the model's own number as well.
    ep: groups of the ranks of a copy, each with experts of its own, which the ranks of a group share over their width.
    instances: that the ranks of a copy are spread over. ultraserver: these are joined by links, else by the network.
    """

    model: Architecture
    target: str
    tp: int
    lnc: int
    batch: int
    context: int
    dtype: str
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    hidden: int
    dp: int = 1
    ep: int = 1
    instances: int = 1
    ultraserver: bool = False

    @property
    def experts(self) -> int:
        """The experts that this rank has a part of."""
        return self.model.experts // self.ep

    @property
    def overrides(self) -> dict[str, int] | None:
        """The overrides of the machine's description: instances of no more chips than these ranks take."""
        changed = {}
        wide, _, joined = CHIPS_OF[self.target]
        if self.instances > 1:
            chips = self.tp * self.lnc // chip_of(self.target)[0] // self.instances
            changed = {"topology.rows": max(1, chips // wide), "topology.columns": min(wide, chips)}
        if self.ultraserver:
            changed["topology.instances_per_server"] = joined
        return changed or None

    @property
    def groups(self) -> list[list[int]]:
        """The ranks that share a copy of the weights, for each of the `dp` copies."""
        return [list(range(n * self.tp, (n + 1) * self.tp)) for n in range(self.dp)]

    def cached(self, layer: int) -> int:
        """Tokens in a layer's cache: the context, or the window in whole tiles, which is then written round robin."""
        tile = ROUND * self.lnc
        return min(self.context, -(-self.model.window // tile) * tile) if self.model.has_window(layer) else self.context

    @property
    def weight_bytes(self) -> int:
        """The bytes of all layers, head and embedding."""
        parts = self.model.weights_of(self.heads, self.kv_heads, self.inner, self.vocabulary, self.hidden, self.experts)
        return sum(parts.values()) * DTYPE_BYTES[self.dtype]

    @property
    def cache_bytes(self) -> int:
        """Keys and values of all layers."""
        tokens = sum(self.cached(layer) for layer in range(self.model.layers))
        return 2 * self.batch * self.kv_heads * tokens * self.model.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def memory_bytes(self) -> int:
        """The memory of a rank."""
        return hbm_bytes(self.target, self.lnc)

    @property
    def fits(self) -> bool:
        return self.weight_bytes + self.cache_bytes <= self.memory_bytes


def share_of(model: Architecture, target: str, tp: int, batch: int = 1, context: int = 2048,
          dtype: str = "bfloat16", lnc: int = 2, dp: int = 1, ep: int = 1, instances: int = 1,
          ultraserver: bool = False) -> Share:
    """The Share of a rank; a ModelError where the model cannot be cut so. dp: copies of the model side by side, each of
    `tp` ranks and with `batch` sequences of its own. ep: groups among these ranks that have experts of their own.
    instances, ultraserver: where the ranks of a copy are."""
    if not 1 <= dp * max(1, tp) <= MOST_RANKS:
        raise ModelError(f"{dp} copies of {tp} ranks", f"at least 1 copy, and at most {MOST_RANKS} ranks")
    target = find_target(target) or target
    if target not in CHIPS_OF:
        raise ModelError(f"target {target!r}", "trn2 or trn3, which nki-library's decode kernels need")
    _check_place(target, tp * lnc, instances, ultraserver)
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"dtype {dtype!r}", f"one of {', '.join(DTYPE_BYTES)}")
    if tp < 1 or model.heads % tp:
        raise ModelError(f"tp {tp}", f"a divisor of the model's {model.heads} query heads")
    # nki-library's kernels of attention and experts leave padding out of their norms.
    hidden = -(-model.hidden // (ROUND * lnc)) * ROUND * lnc if model.experts else model.hidden
    if hidden % ROUND or hidden % tp:
        raise ModelError(f"hidden_size {model.hidden}", f"a multiple of {ROUND} and of tp, which is {tp}")
    kv_heads = max(1, model.kv_heads // tp)
    if kv_heads > 1:
        raise ModelError(
            f"tp {tp} leaves {kv_heads} heads of keys and values to a rank",
            f"at least {model.kv_heads} ranks: nki-library's attention_block_tkg has one such head a rank")
    if batch < 1 or context < ROUND * lnc or context % (ROUND * lnc):
        raise ModelError(f"batch {batch} and context {context}",
                         f"a batch of at least 1 and a context that is a multiple of {ROUND * lnc}")
    if batch * (model.heads // tp) > ROUND:
        raise ModelError(f"batch {batch} of {model.heads // tp} query heads a rank",
                         f"at most {ROUND} together, which is what attention_block_tkg takes")
    if ep < 1 or tp % ep or (ep > 1 and (not model.experts or model.experts % ep)):
        raise ModelError(f"{model.experts} experts in {ep} groups of {tp} ranks",
                         "a divisor of both, or 1: every rank has part of the width of each", "--ep")
    inner = -(-model.inner // (tp // ep))
    if model.experts == 0:
        inner = -(-inner // ROUND) * ROUND
    vocabulary = -(-model.vocabulary // (tp * lnc)) * lnc
    return Share(model, target, tp, lnc, batch, context, dtype, model.heads // tp, kv_heads, inner,
                 vocabulary, hidden, dp, ep, instances, ultraserver)


def _check_place(target, cores, instances, ultraserver):
    """True if so many cores can be spread so over instances."""
    wide, most, joined = CHIPS_OF[target]
    if ultraserver and joined == 1:
        raise ModelError(f"an UltraServer of {target}", "none, as one domain of its switch is one already",
                         "--ultraserver")
    if instances < 1:
        raise ModelError(f"{instances} instances", "at least 1", "--instances")
    of_chip, _ = chip_of(target)
    chips, left = divmod(cores, of_chip * instances)
    whole = chips <= wide or chips % wide == 0
    if instances > 1 and (left or not 1 <= chips <= most or not whole):
        raise ModelError(f"{cores} cores on {instances} instances",
                         f"whole chips of {of_chip} cores in each, up to {wide} or a multiple of it, at most {most}",
                         "--instances")
