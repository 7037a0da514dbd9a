"""Tests that a small model of random weights decodes the same tokens on 1, 4 and 8 ranks as in
plain torch.
"""

import decoder_parts
import numpy as np
import pytest
from running import cli
from small_model import LLAMA

import nkisim
from nkisim_model import of_config, share_of
from nkisim_model.routes import routes
from nkisim_model.step import arguments, decode

torch = pytest.importorskip("torch")

HEADS, D, HIDDEN, INNER, VOCABULARY, LAYERS, CONTEXT, TOKENS = 8, 32, 256, 512, 512, 3, 256, 16
MODEL = of_config({**LLAMA, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": 1,
                   "head_dim": D, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY})
PARTS = {"attention": decoder_parts.attention, "mlp": decoder_parts.mlp}
FIRST = 7


def weights():
    """The weights of the whole model, in float16."""
    rng = np.random.default_rng(29)

    def normal(rows, columns):
        return (rng.standard_normal((rows, columns)) * rows ** -0.5).astype(np.float16)

    layers = [{"q": normal(HIDDEN, HEADS * D), "k": normal(HIDDEN, D), "v": normal(HIDDEN, D),
               "out": normal(HEADS * D, HIDDEN), "gate": normal(HIDDEN, INNER), "up": normal(HIDDEN, INNER),
               "down": normal(INNER, HIDDEN), "norm1": 1 + normal(1, HIDDEN) / 10, "norm2": 1 + normal(1, HIDDEN) / 10}
              for _ in range(LAYERS)]
    return {"embedding": normal(VOCABULARY, HIDDEN) * np.float16(VOCABULARY ** 0.5), "layers": layers,
            "norm": 1 + normal(1, HIDDEN) / 10, "head": normal(HIDDEN, VOCABULARY)}


def rotation(position):
    """cos and sin of a position, [D / 2]."""
    angle = position * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    return np.cos(angle).astype(np.float16), np.sin(angle).astype(np.float16)


# ---- plain torch -----------------------------------------------------------------------------
def norm(x, gamma):
    return x * torch.rsqrt((x * x).mean() + MODEL.eps) * gamma[0]


def rotated(x, position):
    """x [heads, D]."""
    cos, sin = (torch.tensor(t, dtype=torch.float32) for t in rotation(position))
    a, b = x[:, :D // 2], x[:, D // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], 1)


def torchs_tokens(w):
    """The tokens after FIRST, and by how much of the logits' spread each wins."""
    w = {name: [{k: torch.tensor(v, dtype=torch.float32) for k, v in layer.items()} for layer in value]
         if name == "layers" else torch.tensor(value, dtype=torch.float32) for name, value in w.items()}
    caches = [([], []) for _ in range(LAYERS)]
    token, tokens, margins = FIRST, [], []
    for position in range(TOKENS):
        x = w["embedding"][token]
        for layer, (keys, values) in zip(w["layers"], caches):
            y = norm(x, layer["norm1"])
            keys.append(rotated((y @ layer["k"])[None], position)[0])
            values.append(y @ layer["v"])
            scores = rotated((y @ layer["q"]).reshape(HEADS, D), position) @ torch.stack(keys).T / D ** 0.5
            x = x + (torch.softmax(scores, 1) @ torch.stack(values)).reshape(-1) @ layer["out"]
            y = norm(x, layer["norm2"])
            x = x + (torch.nn.functional.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
        logits = norm(x, w["norm"]) @ w["head"]
        best = torch.topk(logits, 2)
        token = int(best.indices[0])
        tokens.append(token)
        margins.append(float((best.values[0] - best.values[1]) / logits.std()))
    return tokens, margins


# ---- on ranks --------------------------------------------------------------------------------
def shard(w, share, rank):
    """One rank's weights, and empty caches, by the names of the step's arguments."""
    heads, inner = HEADS // share.tp, INNER // share.tp

    def part(a, axis, padded=None):
        own = np.split(a, share.tp, axis)[rank]
        if padded:
            own = np.concatenate([own, np.zeros_like(np.take(own, [0] * (padded - inner), axis))], axis)
        return np.ascontiguousarray(own)

    layers = [{"qkv": np.concatenate([part(one["q"], 1), one["k"], one["v"]], 1), "out": part(one["out"], 0),
               "norm1": one["norm1"], "norm2": one["norm2"], "qkv_bias": None, "q_norm": None, "k_norm": None,
               "gate": part(one["gate"], 1, share.inner), "up": part(one["up"], 1, share.inner),
               "down": part(one["down"], 0, share.inner), "keys": np.zeros((1, 1, D, CONTEXT), np.float16),
               "values": np.zeros((1, 1, CONTEXT, D), np.float16)} for one in w["layers"]]
    assert layers[0]["qkv"].shape == (HIDDEN, (heads + 2) * D)
    return {"embedding": part(w["embedding"], 1), "layers": layers, "norm": w["norm"], "head": part(w["head"], 1),
            "rank_offset": np.full((1, 1), rank * share.vocabulary, np.float32)}


def decoded(w, ranks, count=TOKENS):
    """The first `count` tokens after FIRST, the caches in place from step to step; and the last step's result."""
    share = share_of(MODEL, "trn2", ranks, context=CONTEXT, dtype="float16")
    own = [shard(w, share, r) for r in range(ranks)]
    expected = arguments(share, LAYERS)
    assert {k: v.shape for k, v in own[0]["layers"][0].items() if v is not None} == \
        {k: v.shape for k, v in expected["layers"][0].items() if v is not None}
    kernel = decode(share, None, routes(share, None, PARTS))
    token, tokens = FIRST, []
    for position in range(count):
        cos, sin = (t.reshape(D // 2, 1, 1) for t in rotation(position))
        mask = np.broadcast_to(np.arange(CONTEXT)[:, None, None, None] <= position, expected["mask"].shape)
        given = {"tokens": np.full((1, 1), token, np.int32), "cos": cos, "sin": sin, "mask": mask.astype(np.uint8),
                 "positions": np.full((1, 1), position, np.uint32), "window": None}
        world = {"ranks": ranks, "rank_inputs": lambda r: own[r]} if ranks > 1 else own[0]
        result = nkisim.run(kernel, **given, **world, lnc=2, target="trn2", timing=False)
        found = {int(np.asarray(each[0])[0, 0]) for each in (result.outputs if ranks > 1 else [result.outputs])}
        assert len(found) == 1  # every rank says the same
        token = found.pop()
        tokens.append(token)
    return tokens, result


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4, 8])
def test_the_tokens_are_torchs(ranks):
    w = weights()
    tokens, margins = torchs_tokens(w)
    # A token that wins by less than float16 leaves would say nothing; one that repeats as little.
    assert min(margins) > 0.01 and len(set(tokens)) > 4
    assert decoded(w, ranks)[0] == tokens


@pytest.mark.process
def test_a_saved_step_gives_what_it_gave(tmp_path):
    """The step wrote its caches in place: the saved world has them as they were before."""
    _, result = decoded(weights(), 4, 2)
    path = result.save(tmp_path / "step.nisa")
    kept = np.load(tmp_path / "step.npz")
    caches = [name for name in kept.files if name.endswith("_values@0")]
    assert len(caches) == LAYERS
    for name in caches:  # one token of the two
        assert kept[name].reshape(CONTEXT, D)[0].any() and not kept[name].reshape(CONTEXT, D)[1:].any()
    cli("run", path, "--expect", tmp_path / "step.expected.{rank}.npz", "--rtol", 0, "--atol", 0)
