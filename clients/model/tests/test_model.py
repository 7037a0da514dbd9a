"""Tests `nkisim model`: how it reads a config.json, a rank's share of the model, the time of a
decode step, and the values of its own kernels (NumPy).
"""

import importlib
import json
import sys

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from running import cli
from small_model import LLAMA, SMALL, copied, reads

import nkisim
from nkisim_model import ModelError, kernels, library, of_config, predict, read, report, share_of, step
from nkisim_model.command import arguments, function, sweep

MOE = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
       "head_dim": 128, "moe_intermediate_size": 768, "intermediate_size": 6144, "num_experts": 128,
       "num_experts_per_tok": 8, "num_hidden_layers": 48, "vocab_size": 151936}

# ---- configs ---------------------------------------------------------------------------------
def test_what_a_config_says():
    model = of_config(LLAMA)
    assert (model.head_dim, model.layers, model.experts, model.qk_norm) == (128, 32, 0, False)
    # 8.03 billion parameters is what the model's card says; norms are not counted here.
    assert sum(model.weights.values()) == pytest.approx(8.03e9, rel=1e-3)
    moe = of_config(MOE)
    assert (moe.inner, moe.experts, moe.top_k, moe.qk_norm) == (768, 128, 8, True)
    assert sum(moe.weights.values()) == pytest.approx(30.5e9, rel=2e-3)  # the card: 30.5 billion


@pytest.mark.parametrize("change, words", [
    ({"model_type": "whisper"}, "one of apertus, arcee"), ({"model_type": ["llama"]}, "one of apertus"),
    ({"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 1,
      "quantization_config": {"quant_method": "awq"}}, "bits is None"),
    ({"hidden_size": "4096"}, "hidden_size is '4096'"),
    ({"num_hidden_layers": True}, "num_hidden_layers is True"),
    ({"vocab_size": 0}, "vocab_size is 0"),
    ({"num_key_value_heads": 5}, "a multiple"),
    ({"quantization_config": {"bits": 4}}, "has the method None; required: fp8"),
    ({"compression_config": {"quant_method": "compressed-tensors"}}, "no config_groups"),
    ({"layer_types": ["linear_attention"] * 32}, "layers of linear attention"),
    ({"sliding_window": 128, "layer_types": ["sliding_attention"]}, "one word for each of the 32 layers"),
    ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9}, "9 experts a token of 8"),
])
def test_a_config_that_cannot_be(change, words):
    with pytest.raises(ModelError, match=words) as problem:
        of_config({**LLAMA, **change})
    assert str(problem.value).startswith(("config: ", "config has"))


@pytest.mark.parametrize("text", ["[1]", "{", ""])
def test_a_file_that_is_no_config(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError):
        read(tmp_path)


# ---- a rank's share --------------------------------------------------------------------------
def test_a_ranks_memory_by_hand():
    share = share_of(of_config(LLAMA), "trn2", 8, batch=2, context=2048)
    layer = 4096 * 128 * (2 * 4 + 2) + 3 * 4096 * 1792
    assert share.weight_bytes == 2 * (32 * layer + 2 * 4096 * 16032)
    assert share.cache_bytes == 2 * 32 * 2 * 2 * 2048 * 128
    assert share.memory_bytes == 24 * 2**30 and share.fits


def test_what_does_not_fit_says_so():
    model = of_config({**LLAMA, "num_hidden_layers": 3200})
    assert not share_of(model, "trn2", 8).fits


@pytest.mark.parametrize("hidden, tp, padded, columns", [
    (2880, 8, 2944, 368), (4096, 5, 4096, 820), (200, 1, 256, 256)])
def test_a_hidden_size_that_does_not_divide(hidden, tp, padded, columns):
    model = of_config({**LLAMA, "hidden_size": hidden, "head_dim": 128})
    share = share_of(model, "trn2", tp)
    assert share.hidden == padded and step.arguments(share, 1)["embedding"].shape[1] == columns


@pytest.mark.parametrize("heads, kv_heads, tp, own, padding", [
    (32, 8, 8, (4, 1), 0), (32, 8, 4, (8, 2), 0), (32, 8, 1, (32, 8), 0), (32, 32, 8, (4, 4), 0),
    (40, 40, 8, (5, 5), 0),
    (28, 4, 8, (4, 1), 4),    # two ranks a head of keys and values: seven query heads are four and three
    (40, 8, 16, (3, 1), 8), (24, 8, 16, (2, 1), 8), (32, 8, 64, (1, 1), 32), (40, 10, 4, (12, 3), 8),
    (64, 8, 24, (3, 1), 8), (64, 8, 12, (6, 2), 8), (64, 1, 16, (4, 1), 0)])
def test_heads_of_a_rank(heads, kv_heads, tp, own, padding):
    model = of_config({**LLAMA, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128})
    share = share_of(model, "trn2", tp)
    assert (share.heads, share.kv_heads) == own and share.padding == padding


@pytest.mark.parametrize("given, words", [
    (dict(target="gaudi", tp=8), "one of trn1, inf2, trn2, trn3"), (dict(target="trn2", tp=0), "at least 1"),
    (dict(target="trn1", tp=2, lnc=2), "required: 1"), (dict(target="trn2", tp=2, lnc=3), "1 or 2"),
    (dict(target="trn2", tp=8, context=0), "at least 1 of each"), (dict(target="trn2", tp=8, batch=0), "at least 1"),
    (dict(target="trn2", tp=8, cache_dtype="int4"), "float8_e4m3"),
    (dict(target="trn2", tp=8, dtype="float32"), "bfloat16, float16")])
def test_a_share_that_cannot_be(given, words):
    with pytest.raises(ModelError, match=words):
        share_of(of_config(LLAMA), **given)


@pytest.mark.parametrize("change, window", [
    ({"sliding_window": 4096}, 4096), ({"sliding_window": None}, 0),
    ({"sliding_window": 4096, "use_sliding_window": False}, 0),
    ({"sliding_window": 4096, "layer_types": ["full_attention"] * 32}, 0),
    ({"sliding_window": 4096, "layer_types": ["full_attention", "sliding_attention"] * 16}, 4096)])
def test_a_windows_cache(change, window):
    model = of_config({**LLAMA, **change})
    assert model.window == window
    share = share_of(model, "trn2", 8, context=8192)
    kinds = change.get("layer_types", ["sliding_attention"]) if window else ["full_attention"]
    tokens = [4096 if kinds[n % len(kinds)] == "sliding_attention" else 8192 for n in range(32)]
    assert [share.cached(n) for n in range(32)] == tokens and share.cache_bytes == 2 * 2 * 128 * sum(tokens)
    assert share_of(model, "trn2", 8, context=2048).cached(0) == 2048


GPT_OSS = {"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "head_dim": 64,
           "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 24, "num_local_experts": 32,
           "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": True, "vocab_size": 201088,
           "quantization_config": {"quant_method": "mxfp4"}}


def test_what_gpt_oss_has():
    model = of_config(GPT_OSS)
    assert model.quantised.name == "mxfp4"
    assert (model.experts, model.top_k, model.window, model.clamp) == (32, 4, 128, 7.0)
    assert [model.has_window(n) for n in range(4)] == [True, False, True, False]
    assert model.sinks and model.qkv_bias and not of_config(LLAMA).sinks
    assert sum(model.weights.values()) == pytest.approx(20.9e9, rel=0.01)  # the card: 20.9 billion
    share = share_of(model, "trn3", 8, context=1024)
    assert (share.hidden, share.inner, share.heads) == (3072, 360, 8)  # 3072 is what nki-library's tests pad it to
    assert [share.cached(n) for n in range(2)] == [256, 1024]
    shapes = step.arguments(share, 2)
    assert [w["keys"].shape for w in shapes["layers"]] == [(1, 1, 64, 256), (1, 1, 64, 1024)]
    assert shapes["window"][0].shape == (256, 1, 8, 1) and shapes["mask"].shape == (1024, 1, 8, 1)
    assert shapes["layers"][0]["gate_up_bias"].shape == (32, 2, 360)


def test_parts_of_a_window_get_its_mask():
    """If layers alternate, each part has the mask and the places of its own cache."""
    model = of_config({**SMALL, "num_hidden_layers": 4, "sliding_window": 256,
                       "layer_types": ["sliding_attention", "full_attention"] * 2})
    seen = []

    def noted(x, w, share, step):
        seen.append((step.layer, step.mask.shape[0], w.keys.shape[3]))
        return copied(x, w, share, step)

    predict(share_of(model, "trn2", 2, context=512), None, {"attention": noted, "mlp": copied})
    assert set(seen) == {(0, 256, 256), (1, 512, 512), (2, 256, 256), (3, 512, 512)}


def test_a_bias_that_the_config_says():
    assert of_config({**LLAMA, "attention_bias": True}).qkv_bias and not of_config(LLAMA).qkv_bias


# ---- kernels of its own ----------------------------------------------------------------------
def normal(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("ranks, batch, lnc", [(1, 1, 1), (1, 3, 2), (4, 1, 2), (4, 3, 1), (1, 300, 2), (4, 300, 2)])
def test_rows_of_the_embedding(ranks, batch, lnc):
    rng = np.random.default_rng(ranks + batch)
    table = normal(rng, 50, 256)
    tokens = rng.integers(0, 50, (batch, 1)).astype(np.int32)
    group = ncc.ReplicaGroup([list(range(ranks))]) if ranks > 1 else None
    shards = [np.ascontiguousarray(a) for a in np.split(table, ranks, axis=1)]

    @nki.jit
    def kernel(tokens, table):
        rows = kernels.embedding(tokens, table, group)
        out = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.shared_hbm)
        if kernels.cores()[0] == 0:
            nisa.dma_copy(dst=out, src=rows)
        return out

    result = nkisim.run(kernel, tokens, nkisim.per_rank(shards) if ranks > 1 else table, target="trn2", lnc=lnc,
                        **({"ranks": ranks} if ranks > 1 else {}))
    for each in result.outputs if ranks > 1 else [result.outputs]:
        np.testing.assert_array_equal(np.asarray(each)[:, 0], table[tokens[:, 0]])


@pytest.mark.parametrize("rows, lnc", [(1, 1), (1, 2), (2100, 2)])
def test_residual_sums(rows, lnc):
    """Sums of 2,100 rows in two tiles, each core's."""
    rng = np.random.default_rng(rows)
    x, delta = normal(rng, 1, rows, 256), normal(rng, 1, rows, 256)
    found = nkisim.run(nki.jit(lambda x, delta: kernels.residual(x, delta)), x, delta, target="trn2", lnc=lnc).outputs
    np.testing.assert_array_equal(np.asarray(found), (x.astype(np.float32) + delta).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("lnc", [1, 2])
def test_what_a_prompt_keeps(lnc):
    rng = np.random.default_rng(lnc)
    keys, values, x = normal(rng, 1024, 128), normal(rng, 1024, 128), normal(rng, 1, 700, 256)

    @nki.jit
    def kernel(keys, values, x):
        to = (nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.shared_hbm),
              nl.ndarray((1024, 128), dtype=x.dtype, buffer=nl.shared_hbm))
        kernels.keep(keys, values, *to)
        return *to, kernels.last_row(x)

    found = nkisim.run(kernel, keys, values, x, target="trn2", lnc=lnc).outputs
    for each, expected in zip(found, (keys.T, values, x[:, -1:])):
        np.testing.assert_array_equal(np.asarray(each), expected)


@pytest.mark.parametrize("ranks, batch, lnc, columns", [(1, 1, 1, 700), (1, 2, 2, 33000), (4, 2, 2, 512)])
def test_the_most_likely_token(ranks, batch, lnc, columns):
    rng = np.random.default_rng(columns + batch)
    x, gamma = normal(rng, batch, 1, 256), normal(rng, 1, 256)
    weights = normal(rng, 256, ranks * columns, scale=0.1)
    weights[:, -5] = weights[:, 17]  # of equal logits the first is taken
    group = ncc.ReplicaGroup([list(range(ranks))]) if ranks > 1 else None
    shards = [np.ascontiguousarray(w) for w in np.split(weights, ranks, axis=1)]
    offsets = [np.full((1, 1), r * columns, np.float32) for r in range(ranks)]
    kernel = nki.jit(lambda x, gamma, weights, offset: kernels.head(x, gamma, weights, offset, group, 1e-6))
    each = (nkisim.per_rank(shards), nkisim.per_rank(offsets)) if ranks > 1 else (weights, offsets[0])
    result = nkisim.run(kernel, x, gamma, *each, target="trn2", lnc=lnc, **({"ranks": ranks} if ranks > 1 else {}))
    row = x[:, 0].astype(np.float64)
    even = row / np.sqrt((row**2).mean(1, keepdims=True) + 1e-6) * gamma.astype(np.float64)
    exact = even @ weights.astype(np.float64)
    for found in result.outputs if ranks > 1 else [result.outputs]:
        for b, token in enumerate(np.asarray(found)[:, 0]):
            assert exact[b, token] > np.sort(exact[b])[-1] - 0.02 * np.abs(exact[b]).max()
            assert token != ranks * columns - 5


def test_the_first_of_equal_logits():
    x, gamma = np.ones((1, 1, 128), ml_dtypes.bfloat16), np.ones((1, 128), ml_dtypes.bfloat16)
    weights = np.zeros((128, 64), ml_dtypes.bfloat16)
    weights[:, [11, 40, 63]] = 1
    kernel = nki.jit(lambda *a: kernels.head(*a, None, 1e-6))
    found = nkisim.run(kernel, x, gamma, weights, np.zeros((1, 1), np.float32), target="trn2", lnc=2).outputs
    assert np.asarray(found).tolist() == [[11]]


# ---- a step ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small():
    return share_of(of_config(SMALL), "trn2", 2, context=256)


def test_parts_are_the_whole(small):
    p = predict(small, None, {"attention": copied, "mlp": copied})
    assert p.steady and sum(part.us for part in p.parts.values()) == pytest.approx(p.step_us, rel=1e-9)
    assert p.parts["head"].read_bytes >= 256 * 512 * 2  # the head's weights
    assert p.parts["mlp all-reduce"].us > 0 and p.next_kernel in p.parts
    assert p.tokens_per_second == pytest.approx(1e6 / p.step_us)


@pytest.mark.parametrize("exact", [False, True])
def test_what_bounds_a_part(small, exact):
    """All of a part's time is charged; an all-reduce's to the collective."""
    p = predict(small, None, {"attention": copied, "mlp": reads}, exact=exact)
    for part in p.parts.values():
        assert sum(part.bounds.values()) == pytest.approx(part.us, rel=1e-9)
        assert all(us >= 0 for us in part.bounds.values()) and bool(part.bound) == (part.us > 0)
    assert p.parts["mlp all-reduce"].bound == "collective"
    assert "collective 100%" in "\n".join(report.lines(p))


def test_ranks_that_gather_other_rows_are_one(small, monkeypatch):
    """The embedding's row comes from memory, and one rank stands for all of them all the same."""
    results = []
    module = sys.modules["nkisim_model.predict"]
    run = module.run
    monkeypatch.setattr(module, "run", lambda *a, **k: results.append(run(*a, **k)) or results[-1])
    share = share_of(of_config(SMALL), "trn2", 4, context=256)
    predict(share, None, {"attention": copied, "mlp": copied})
    assert len(results) == 1 and all(r.timed_as == [0] * 4 for r in results)


def test_steady_state_is_the_whole_run(small):
    """The cost of few layers, but the time of all."""
    parts = {"attention": copied, "mlp": reads}
    short, whole = predict(small, None, parts), predict(small, None, parts, exact=True)
    assert short.step_us == pytest.approx(whole.step_us, rel=0.002)
    assert short.instructions < whole.instructions / 2 and not whole.steady
    assert len(short.layers_us) == 24 and len(whole.layers_us) == 60
    assert 0 <= short.error < 0.002 and whole.error == 0
    for name in whole.parts:
        assert short.parts[name].us == pytest.approx(whole.parts[name].us, rel=0.02, abs=0.2)


@pytest.mark.parametrize("layers", [23, 24, 25, 26, 27])
def test_any_number_of_layers(layers):
    """Also those that are no multiple of the groups of which the steady state is made."""
    share = share_of(of_config({**SMALL, "num_hidden_layers": layers}), "trn2", 2, context=256)
    parts = {"attention": copied, "mlp": reads}
    short, whole = predict(share, None, parts), predict(share, None, parts, exact=True)
    assert short.steady == (layers > 24)
    assert short.step_us == pytest.approx(whole.step_us, rel=0.002)
    assert {n: p.read_bytes for n, p in short.parts.items()} == {n: p.read_bytes for n, p in whole.parts.items()}


def test_layers_that_differ_are_all_simulated(small):
    """A kernel whose later layers take longer has no steady state, whose mean would be another."""
    def growing(x, w, share, step):
        for _ in range(step.layer):
            x = copied(x, w, share, step)
        return copied(x, w, share, step)

    found = predict(small, None, {"attention": growing, "mlp": copied})
    assert not found.steady and len(found.layers_us) == small.model.layers
    assert found.layers_us[40] > 1.2 * found.layers_us[20]


def test_a_kernel_that_reads_more_takes_longer(small):
    light = predict(small, None, {"attention": copied, "mlp": copied})
    heavy = predict(small, None, {"attention": copied, "mlp": reads})
    more = heavy.parts["mlp"].read_bytes - light.parts["mlp"].read_bytes
    # One core's read of the weights, and once more of x, in every layer.
    assert more == small.model.layers * (small.inner * 256 + 256) * 2
    assert heavy.parts["mlp"].us > light.parts["mlp"].us
    assert heavy.step_us > light.step_us


def test_what_another_kernel_changes(small):
    light = predict(small, None, {"attention": copied, "mlp": copied})
    heavy = predict(small, None, {"attention": copied, "mlp": reads})
    rate, line = report.difference(light, heavy, ["mlp"])
    assert f"{heavy.tokens_per_second / light.tokens_per_second - 1:+.1%}" in rate
    causes = line.partition(": ")[2].partition(";")[0].split(", ")
    assert len(causes) == 3 and line.startswith(f"  mlp {light.parts['mlp'].us:.1f} -> {heavy.parts['mlp'].us:.1f}")
    sizes = [abs(float(cause.rsplit(" ", 1)[1])) for cause in causes]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 0
    # All causes together are the difference, of which three are named.
    both = {**light.parts["mlp"].bounds, **heavy.parts["mlp"].bounds}
    total = sum(heavy.parts["mlp"].bounds.get(c, 0) - light.parts["mlp"].bounds.get(c, 0) for c in both)
    assert total == pytest.approx(heavy.parts["mlp"].us - light.parts["mlp"].us)


def test_reports(small, tmp_path):
    p = predict(small, None, {"attention": copied, "mlp": copied})
    text = "\n".join(report.lines(p))
    assert "tokens/s" in text and "mlp all-reduce" in text and "not counted" in text
    json.dumps(p.as_json())
    pytest.importorskip("matplotlib")
    report.plot([p, p], str(tmp_path / "p.svg"))
    assert "tokens/s" in (tmp_path / "p.svg").read_text() or (tmp_path / "p.svg").stat().st_size > 5000


def test_a_checkout_whose_transformer_imports_what_is_not_here(tmp_path, monkeypatch):
    """nki-library's package of the transformer imports a reference in torch, which no kernel needs."""
    for module, names in library.NAMES.items():
        path = tmp_path.joinpath("src", "nkilib_src", "nkilib", *module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name} = {name!r}\n" for name in names))
        for folder in path.parent.relative_to(tmp_path / "src" / "nkilib_src").parents:
            (tmp_path / "src" / "nkilib_src" / folder / "__init__.py").touch()
    package = tmp_path / "src" / "nkilib_src" / "nkilib" / "experimental" / "transformer" / "__init__.py"
    package.write_text("import no_such_module\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert library.load(tmp_path).attention_block_tkg == "attention_block_tkg"
        with pytest.raises(ImportError):
            importlib.import_module("nkilib.experimental.transformer")
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == "nkilib"]:
            del sys.modules[name]


def test_what_a_part_is_called(small):
    with pytest.raises(ModelError, match="one of attention, mlp"):
        predict(small, None, {"attention": copied, "mlp": copied, "norm": copied})
    assert predict(small, None, {"mlp": copied}).kernels == {
        "attention": "nkisim (no checkout of nki-library is given)", "dense": "yours"}


def test_the_roof_is_of_reads_or_of_products(small):
    """The head's products by hand: one row, the vocabulary's columns of a rank, two operations each."""
    p = predict(small, None, {"attention": copied, "mlp": copied})
    head = p.parts["head"]
    assert head.flops == 2 * 256 * 512
    assert head.flops_us == pytest.approx(head.flops / (2 * 2 * 128 * 128 * 2.4) / 1e3)  # two cores, 2.4 GHz
    assert head.roof_us == max(head.read_us, head.flops_us) == head.read_us
    assert p.parts["mlp"].flops == 0


# ---- the command -----------------------------------------------------------------------------
MINE = """from nkisim_model import kernels
import nki.isa as nisa
import nki.language as nl


def part(x, w, share, step):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, x.shape[2] // 128), dtype=x.dtype, buffer=nl.sbuf)
    if kernels.cores()[0] == 0:
        nisa.dma_copy(dst=tile, src=x.reshape(tile.shape))
        nisa.dma_copy(dst=out.reshape(tile.shape), src=tile)
    return out
"""


@pytest.mark.process
def test_the_command(tmp_path):
    config, mine = tmp_path / "config.json", tmp_path / "mine.py"
    config.write_text(json.dumps(SMALL))
    mine.write_text(MINE)
    words = ("model", config, "--tp", "2", "--context", "256", "--kernel", f"attention={mine}:part",
             "--kernel", f"mlp={mine}:part")
    found = json.loads(cli(*words, "--json").stdout)
    assert found["steady"] and found["tokens_per_second"] == pytest.approx(1e6 / found["tpot_us"])
    assert set(found["parts"]) >= {"attention", "mlp all-reduce", "head"}
    text = cli(*words, "--sweep", "context=256,512", "--html", tmp_path / "p.html").stdout
    assert "tp 2, batch 1, context 512" in (tmp_path / "p.html").read_text()
    assert sorted(line.split()[2] for line in text.splitlines()[1:3]) == ["256", "512"]  # as they come
    assert "a divisor" in cli(*words, "--ep", "2", "--sweep", "tp=2,4", "batch=1,2", code=3).stdout


@pytest.mark.process
def test_what_the_command_refuses(tmp_path):
    config, mine = tmp_path / "config.json", tmp_path / "mine.py"
    config.write_text(json.dumps(SMALL))
    mine.write_text(MINE)
    tp = ("model", config, "--tp", "2", "--context", "256")
    for words, said in ((("--library", tmp_path), "src/nkilib_src"),
                        (("--kernel", f"mlp={mine}:other"), "no function other"),
                        (("--kernel", "mlp=none.py:f"), "no file none.py")):
        error = cli(*tp, *words, code=3).stderr
        assert said in error and "Traceback" not in error
    cli("model", config, "--sweep", "tp", code=2)


def test_what_the_options_say(tmp_path):
    config, mine = tmp_path / "config.json", tmp_path / "mine.py"
    config.write_text(json.dumps(SMALL))
    mine.write_text(MINE)
    args = arguments([str(config), "--sweep", "tp=2,4", "batch=1,2", "--context", "256", "--layers", "3"])
    found = sweep(args)
    assert [(p.tp, p.batch, p.context) for p in found.points()] == [(2, 1, 256), (2, 2, 256), (4, 1, 256), (4, 2, 256)]
    assert found.model.layers == 3
    assert callable(function(str(mine), "part"))
