"""Computes one rank's share of a model: the sizes of its weight tensors, and if they fit its
memory.
"""

from __future__ import annotations

import dataclasses

from nkisim.record.targets import chip_of, find_target, generation_of, hbm_bytes

from .architecture import Architecture, ModelError, Sizes
from .formats import Format
from .routing import busiest

DTYPE_BYTES = {"bfloat16": 2, "float16": 2}
CACHE_BYTES = {"bfloat16": 2, "float16": 2, "float8_e4m3": 1}
MOST_RANKS = 4096  # of a world
#: Chips of an instance along a row and in all, instances of an UltraServer (1: the links of an
#: instance reach as far). Source: AWS's architecture pages of each.
CHIPS_OF = {"trn1": (4, 16, 1), "inf2": (12, 12, 1), "trn2": (4, 16, 4), "trn3": (64, 64, 1)}
SEARCHED = 8  # columns of logits that are searched at least
ROUND = 128  # the kernels' tiles have so many partitions
SORTED = 800  # columns of products that a tile of 128 tokens saves, of an expert, where it pays to sort tokens


@dataclasses.dataclass(frozen=True)
class Share:
    """Sizes of one rank of `tp`: tensors are sharded over heads, the MLP's width and the vocabulary.

    heads, kv_heads: of a rank, of which some may be padding. hidden: elements of a token, padded to whole tiles where
    the kernels take the model's own number as well. dense, shared: widths of the dense MLP next to experts, and of
    shared experts. key_heads, value_heads: of linear attention.
    ep: groups of the ranks of a copy, each with experts of its own, which the ranks of a group share over their width.
    instances: that the ranks of a copy are spread over. ultraserver: these are joined by links, else by the network.
    slots: pairs of tokens and experts that a group of ranks, or an expert, has space for, instead of those that an even
    router needs. cache_dtype: of keys and values. own: nkisim's kernels alone, whatever the library has.
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
    dense: int = 0
    shared: int = 0
    key_heads: int = 0
    value_heads: int = 0
    cache_dtype: str = ""
    own: bool = False
    slots: int = 0

    @property
    def experts(self) -> int:
        """The experts that this rank has a part of."""
        return self.model.experts // self.ep

    @property
    def pairs(self) -> int:
        """Pairs of a token and an expert that it chose, of the busiest group of ranks, where the router prefers none
        (routing.py)."""
        return self.slots or busiest(self.batch, self.model.top_k, self.model.experts, self.ep)

    def rows_of_expert(self, tokens: int) -> int:
        """The tokens of the busiest expert."""
        return self.slots or busiest(tokens, self.model.top_k, self.model.experts, self.model.experts)

    def sorts(self, tokens: int) -> bool:
        """True if tokens are sorted by expert: it saves more products than it takes to find and transpose the rows."""
        saved = -(-tokens // ROUND) - -(-self.rows_of_expert(tokens) // ROUND)
        return saved * self.inner * (3 if self.model.gated else 2) >= SORTED

    @property
    def padding(self) -> int:
        """Query heads of all ranks that the model has not."""
        return 0 if self.model.latent and not self.heads else self.heads * self.tp - self.model.heads

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
        """Tokens in a layer's cache: the context, or the window, in whole tiles; a window is written cyclically."""
        return self.tokens(self.model.has_window(layer))

    def tokens(self, windowed: bool) -> int:
        """The same of a layer that attends to a window, or to all."""
        tile = ROUND * self.lnc
        tokens = min(self.context, self.model.window) if windowed else self.context
        return -(-tokens // tile) * tile

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.heads, self.kv_heads, self.inner, self.vocabulary, self.hidden, self.experts, self.dense,
                     self.shared, self.key_heads, self.value_heads)

    def format_of(self, part: str) -> Format | None:
        """The format of the weights of "attention", "mlp" or "experts"; None for the dtype."""
        found, m = self.model.quantised, self.model
        if found is None or part not in found.parts or found.unpacked or part == "experts":
            return None
        return None if part == "attention" and (m.latent or m.linear) else found

    def _bytes_per(self, part):
        found = self.format_of(part)
        return found.bytes_per_element if found else DTYPE_BYTES[self.dtype]

    @property
    def weight_bytes(self) -> int:
        """The bytes of all layers, head and embedding."""
        m, sizes = self.model, self.sizes
        parts = m.weights_of(sizes)
        total = (parts["head"] + parts["embedding"]) * DTYPE_BYTES[self.dtype]
        total += parts["attention"] * self._bytes_per("attention")
        for layer in range(m.layers):
            total += sum(count * self._bytes_per(part) for part, count in m.mlp_weights(layer, sizes).items())
        return round(total)

    @property
    def cache_bytes(self) -> int:
        """Keys and values of all layers, or what they have instead: compressed ones, or a state."""
        m = self.model
        each = CACHE_BYTES[self.cache_dtype or self.dtype]
        total = 0
        for layer in range(m.layers):
            mixer = m.mixer(layer)
            if "attention" in mixer and m.latent:
                total += self.cached(layer) * (m.latent.kv_rank + m.latent.rotated) * each
            elif "attention" in mixer:
                total += 2 * self.kv_heads * self.cached(layer) * m.head_dim * each
            if "linear" in mixer and m.linear:
                convolved = m.linear.columns(self.key_heads, self.value_heads)[0]
                total += 4 * self.value_heads * m.linear.key_dim * m.linear.value_dim
                total += (m.linear.convolution - 1) * convolved * DTYPE_BYTES[self.dtype]
        return self.batch * total

    @property
    def memory_bytes(self) -> int:
        """The memory of a rank."""
        return hbm_bytes(self.target, self.lnc)

    @property
    def fits(self) -> bool:
        return self.weight_bytes + self.cache_bytes <= self.memory_bytes


def default_lnc(target: str) -> int:
    """Cores of a logical core as the target has it by default."""
    return min(2, generation_of(target) - 1)


def share_of(model: Architecture, target: str, tp: int, batch: int = 1, context: int = 2048,
          dtype: str = "bfloat16", lnc: int | None = None, dp: int = 1, ep: int = 1, instances: int = 1,
          ultraserver: bool = False, cache_dtype: str = "", own: bool = False) -> Share:
    """The Share of a rank; a ModelError where the model cannot be cut so. dp: copies of the model side by side, each of
    `tp` ranks and with `batch` sequences of its own. ep: groups among these ranks that have experts of their own.
    instances, ultraserver: where the ranks of a copy are. lnc: cores of a rank; as the target has it by default."""
    if not 1 <= dp * max(1, tp) <= MOST_RANKS:
        raise ModelError(f"{dp} copies of {tp} ranks", f"at least 1 copy, and at most {MOST_RANKS} ranks")
    target = find_target(target) or target
    if target not in CHIPS_OF:
        raise ModelError(f"target {target!r}", f"one of {', '.join(CHIPS_OF)}")
    lnc = default_lnc(target) if lnc is None else lnc
    if not 1 <= lnc <= default_lnc(target):
        raise ModelError(f"logical cores of {lnc} on {target}", "1" + " or 2" * (default_lnc(target) > 1), "--lnc")
    if tp < 1:
        raise ModelError(f"tp {tp}", "at least 1")
    _check_place(target, tp * lnc, instances, ultraserver)
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"dtype {dtype!r}", f"one of {', '.join(DTYPE_BYTES)}")
    if cache_dtype and cache_dtype not in CACHE_BYTES:
        raise ModelError(f"a cache of {cache_dtype!r}", f"one of {', '.join(CACHE_BYTES)}", "--cache")
    if batch < 1 or context < 1:
        raise ModelError(f"batch {batch} and context {context}", "at least 1 of each")
    if ep < 1 or tp % ep or (ep > 1 and (not model.experts or model.experts % ep)):
        raise ModelError(f"{model.experts or 'no'} experts in {ep} groups of {tp} ranks",
                         "a divisor of both, or 1: every rank has part of the width of each", "--ep")
    tile = ROUND * lnc if model.experts else ROUND  # of nki-library's kernels, those of experts want it of both cores
    heads, kv_heads = heads_of(model.heads, model.kv_heads, tp)
    if model.latent:  # all heads have the same keys and values
        heads, kv_heads = -(-model.heads // tp), 1
    linear = _linear_heads(model.linear, tp) if model.linear else (0, 0)
    return Share(model, target, tp, lnc, batch, context, dtype, heads, kv_heads, -(-model.inner // (tp // ep)),
                 -(-model.vocabulary // (tp * lnc * SEARCHED)) * lnc * SEARCHED, -(-model.hidden // tile) * tile,
                 dp, ep, instances, ultraserver, -(-model.dense // tp), -(-model.shared // tp), *linear,
                 cache_dtype, own)


def heads_of(heads: int, kv_heads: int, tp: int) -> tuple[int, int]:
    """Query heads and heads of keys and values of a rank, padded as servers pad them: ranks share a head of keys and
    values where there are more ranks, each with whole query heads of it; else a rank has several, each with all of its
    query heads. Where neither number divides the other, a rank has those that its query heads need."""
    group = heads // kv_heads
    if tp % kv_heads == 0:
        return -(-group // (tp // kv_heads)), 1
    if tp < kv_heads:
        own = -(-kv_heads // tp)
        return own * group, own
    own = -(-heads // tp)
    if group % own == 0:  # those of a rank are of one group
        return own, 1
    touched = min(own, -(-own // group) + 1)
    return -(-own // touched) * touched, touched


def _linear_heads(linear, tp):
    """Heads of keys and of values of a rank: as many values a key as the model has, where a rank has a key's."""
    values = linear.value_heads // linear.key_heads
    if tp <= linear.key_heads:
        keys = -(-linear.key_heads // tp)
        return keys, keys * values
    return 1, max(1, -(-linear.value_heads // tp))


def _check_place(target, cores, instances, ultraserver):
    """True if so many cores can be spread so over instances."""
    wide, most, joined = CHIPS_OF[target]
    if ultraserver and joined == 1:
        raise ModelError(f"an UltraServer of {target}", "none, as one domain of its switch is one already"
                         if target == "trn3" else "trn2", "--ultraserver")
    if instances < 1:
        raise ModelError(f"{instances} instances", "at least 1", "--instances")
    of_chip, _ = chip_of(target)
    chips, left = divmod(cores, of_chip * instances)
    whole = chips <= wide or chips % wide == 0
    if instances > 1 and (left or not 1 <= chips <= most or not whole):
        raise ModelError(f"{cores} cores on {instances} instances",
                         f"whole chips of {of_chip} cores in each, up to {wide} or a multiple of it, at most {most}",
                         "--instances")
