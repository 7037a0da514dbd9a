"""Runs a small transformer in torch whose layers are nki-library's kernels, and compares it with
plain torch.

    python tests/conformance/transformer.py --library DIR [--steps 6] [--timeline FILE.pftrace]

--library is a checkout of aws-neuron/nki-library. Two layers with grouped queries, rotary
embeddings, RMSNorm and a gated MLP: the prompt goes through the kernels for context encoding, then
one token at a time through those for token generation, with a cache of keys and values. The same
weights in plain torch give the tokens to compare with. Says the simulated time of a decode step,
kernel by kernel, and the host's; --timeline writes all steps as one timeline.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import torch

import nkisim

LAYERS, HIDDEN, HEADS, KV_HEADS, D, INNER, VOCABULARY = 2, 512, 4, 2, 128, 512, 256
GROUP = HEADS // KV_HEADS
PROMPT, CACHE, EPS = 128, 256, 1e-6


class Weights(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        make = torch.Generator().manual_seed(seed)

        def weight(*shape, scale=None):
            return torch.randn(*shape, generator=make) * (scale or shape[0] ** -0.5)

        self.embedding = weight(VOCABULARY, HIDDEN, scale=1.0)
        self.head = weight(HIDDEN, VOCABULARY)
        self.norm = 1 + weight(1, HIDDEN, scale=0.1)
        self.layers = [dict(norm1=1 + weight(1, HIDDEN, scale=0.1),
                            norm2=1 + weight(1, HIDDEN, scale=0.1),
                            qkv=weight(HIDDEN, (HEADS + 2 * KV_HEADS) * D),
                            out=weight(HEADS * D, HIDDEN), gate=weight(HIDDEN, INNER),
                            up=weight(HIDDEN, INNER), down=weight(INNER, HIDDEN))
                       for _ in range(LAYERS)]


def angles(positions):
    """cos and sin, [positions, D / 2]."""
    rates = 10000.0 ** (-torch.arange(0, D, 2) / D)
    return torch.cos(positions[:, None] * rates), torch.sin(positions[:, None] * rates)


def rms_norm(x, gamma):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * gamma


class Plain:
    """The reference: every position anew in each step, no cache."""

    def __init__(self, weights):
        self.w = weights

    def logits(self, tokens):
        x = self.w.embedding[tokens]
        cos, sin = angles(torch.arange(len(tokens)))
        for w in self.w.layers:
            qkv = (rms_norm(x, w["norm1"]) @ w["qkv"]).reshape(len(tokens), -1, D)
            qk = qkv[:, :HEADS + KV_HEADS]
            low, high = qk[..., :D // 2], qk[..., D // 2:]
            c, s = cos[:, None], sin[:, None]
            qk = torch.cat([low * c - high * s, high * c + low * s], -1)
            q, k, v = qk[:, :HEADS], qk[:, HEADS:], qkv[:, HEADS + KV_HEADS:]
            a = torch.nn.functional.scaled_dot_product_attention(
                q.transpose(0, 1), *(t.transpose(0, 1).repeat_interleave(GROUP, 0)
                                     for t in (k, v)), is_causal=True)
            x = x + a.transpose(0, 1).reshape(len(tokens), -1) @ w["out"]
            y = rms_norm(x, w["norm2"])
            x = x + (torch.nn.functional.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
        return rms_norm(x[-1:], self.w.norm) @ self.w.head

    def generate(self, prompt, steps):
        tokens, found = list(prompt), []
        for _ in range(steps + 1):
            found.append(self.logits(torch.tensor(tokens)))
            tokens.append(int(found[-1].argmax()))
        return tokens[len(prompt):], torch.cat(found)


def library(root):
    for folder in (root / "src" / "nkilib_src", root / "src"):
        sys.path.insert(0, str(folder))
    from nkilib.core.attention.attention_cte import attention_cte
    from nkilib.core.attention.attention_tkg import attention_tkg
    from nkilib.core.attention.attention_tkg_utils import AttnTKGConfig
    from nkilib.core.embeddings.rope import RoPE
    from nkilib.core.mlp.mlp_cte.mlp_cte import mlp_cte
    from nkilib.core.mlp.mlp_parameters import MLPParameters, is_mlp_tkg
    from nkilib.core.mlp.mlp_tkg.mlp_tkg import mlp_tkg
    from nkilib.core.output_projection.output_projection_cte.output_projection_cte import (
        output_projection_cte)
    from nkilib.core.output_projection.output_projection_tkg import output_projection_tkg
    from nkilib.core.qkv.qkv import qkv
    from nkilib.core.utils.allocator import SbufManager
    from nkilib.core.utils.common_types import NormType
    from nkilib.core.utils.logging import Logger
    return argparse.Namespace(**locals())


class Simulated:
    """The same with the library's kernels; torch adds the residuals and keeps the cache."""

    def __init__(self, weights, kernels):
        self.w, self.k = weights, kernels
        self.keys = torch.zeros(LAYERS, KV_HEADS, 1, D, CACHE)
        self.values = torch.zeros(LAYERS, KV_HEADS, 1, CACHE, D)

    def project(self, x, w):
        """The queries, keys and values, [positions, heads, D], of x [positions, HIDDEN]."""
        kernels = self.k
        qkv = kernels.qkv[1](x[None], w["qkv"], fused_norm_type=kernels.NormType.RMS_NORM,
                             gamma_norm_weights=w["norm1"], norm_eps=EPS, d_head=D,
                             num_q_heads=HEADS, num_kv_heads=KV_HEADS)
        return qkv.reshape(len(x), HEADS + 2 * KV_HEADS, D)

    def rotate(self, qk):
        """Rotates all positions from 0 on; [positions, heads, D]."""
        cos, sin = (t.T[:, None].contiguous() for t in angles(torch.arange(len(qk))))
        turned = self.k.RoPE[1](qk.permute(2, 1, 0)[:, None].contiguous(), cos, sin)
        return turned[:, 0].permute(2, 1, 0)

    def feed(self, x, w):
        kernels = self.k
        return x + kernels.mlp[1](x[None], w["gate"], w["up"], w["down"], w["norm2"])[0]

    def prefill(self, tokens):
        x = self.w.embedding[tokens]
        n = len(tokens)
        for layer, w in enumerate(self.w.layers):
            qkv = self.project(x, w)
            qk, v = self.rotate(qkv[:, :HEADS + KV_HEADS]), qkv[:, HEADS + KV_HEADS:]
            q, k, v = (t.transpose(0, 1) for t in (qk[:, :HEADS], qk[:, HEADS:], v))
            self.keys[layer, :, 0, :, :n] = k.transpose(1, 2)
            self.values[layer, :, 0, :n] = v
            a = self.k.attention_cte[1](q.contiguous(), k.transpose(1, 2).contiguous(),
                                        v.contiguous(), scale=D ** -0.5, tp_out=True)
            x = x + self.k.output_projection_cte[1](a[None], w["out"])[0]
            x = self.feed(x, w)
        return rms_norm(x[-1:], self.w.norm) @ self.w.head

    def decode(self, token, position):
        x = self.w.embedding[token][None]
        for layer, w in enumerate(self.w.layers):
            a = self.attend(layer, self.project(x, w)[0], position)
            x = x + self.k.output_projection_tkg[1](a, w["out"]).reshape(1, HIDDEN)
            x = self.feed(x, w)
        return rms_norm(x, self.w.norm) @ self.w.head

    def attend(self, layer, qkv, position):
        """The kernel rotates and adds to the cache; each head of keys and values is a batch of its.
        Gives [D, 1, HEADS, 1]."""
        kernels = self.k
        config = kernels.AttnTKGConfig(
            bs=KV_HEADS, q_head=GROUP, s_active=1, curr_sprior=CACHE, full_sprior=CACHE, d_head=D,
            fuse_rope=True, use_gpsimd_sb2sb=False)
        q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS))
        mask = torch.zeros(CACHE, KV_HEADS, GROUP, 1, dtype=torch.uint8)
        mask[:position] = 1
        mask[-1] = 1  # the active token, whose place is the cache's last
        rates = 10000.0 ** (-torch.arange(0, D, 2) / D)
        out, turned = kernels.attention[1](
            q.reshape(KV_HEADS, GROUP, 1, D), k[:, None, None], v[:, None, None], self.keys[layer],
            self.values[layer], mask, config, rates[:, None],
            torch.full((KV_HEADS, 1), float(position)))
        self.keys[layer, :, 0, :, position] = turned[:, 0, :, 0]
        self.values[layer, :, 0, position] = v
        return out.reshape(HEADS, D).T[:, None, :, None].contiguous()

    def generate(self, prompt, steps, timeline):
        found, seconds = [self.prefill(torch.tensor(prompt))], []
        tokens = [int(found[0].argmax())]
        timeline.mark("prefill")
        for step in range(steps):
            begin = time.perf_counter()
            found.append(self.decode(tokens[-1], PROMPT + step))
            seconds.append(time.perf_counter() - begin)
            tokens.append(int(found[-1].argmax()))
            timeline.mark(f"decode {step}")
        return tokens, torch.cat(found), seconds


def entries(kernels):
    """Kernels around the library's parts that write outputs which their caller gives. (Its own entry
    to the MLP, mlp.py, has a syntax error in the release of April 2026.)"""
    import nki
    import nki.language as nl

    @nki.jit
    def attention(q, k_active, v_active, k_prior, v_prior, mask, config, rates, positions):
        out = nl.ndarray((KV_HEADS, GROUP, D, 1), dtype=q.dtype, buffer=nl.shared_hbm)
        k_out = nl.ndarray((KV_HEADS, 1, D, 1), dtype=q.dtype, buffer=nl.shared_hbm)
        manager = kernels.SbufManager(0, 180 * 1024, use_auto_alloc=True)
        manager.open_scope()
        kernels.attention_tkg(q, k_active, v_active, k_prior, v_prior, mask, out, config, manager,
                              inv_freqs=rates, rope_pos_ids=positions, k_out=k_out)
        manager.close_scope()
        return out, k_out

    @nki.jit
    def mlp(x, gate, up, down, gamma):
        parameters = kernels.MLPParameters(x, gate, up, down, gamma, eps=EPS,
                                           normalization_type=kernels.NormType.RMS_NORM)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if kernels.is_mlp_tkg(parameters):
            manager = kernels.SbufManager(0, 200 * 1024, kernels.Logger("mlp"))
            kernels.mlp_tkg(parameters, out, None, sbm=manager)
        else:
            kernels.mlp_cte(parameters, out, None)
        return out

    kernels.attention, kernels.mlp = attention, mlp
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--timeline", metavar="FILE", help="write all steps here (.pftrace or .json)")
    args = parser.parse_args()
    nkisim.install()
    # The rotation in attention_tkg takes the remainder of a tile of which half is written.
    os.environ["NKISIM_ALLOW_UNWRITTEN"] = "1"
    weights = Weights()
    prompt = torch.randint(VOCABULARY, (PROMPT,),
                           generator=torch.Generator().manual_seed(1)).tolist()
    expected, reference = Plain(weights).generate(prompt, args.steps)
    with nkisim.Timeline() as timeline:
        found, logits, seconds = Simulated(weights, entries(library(args.library))).generate(
            prompt, args.steps, timeline)
    print(timeline.report())
    print(f"tokens        {found}\nplain torch   {expected}")
    error = (logits - reference).abs().max().item()
    top = reference.topk(2).values
    print(f"logits        largest difference {error:.2g}, smallest lead of a token "
          f"{(top[:, 0] - top[:, 1]).min():.2g}")
    print(f"decode step   {sum(seconds) / len(seconds):.2f} s on the host")
    if args.timeline:
        print(f"timeline      {timeline.write(args.timeline)}")
    return 0 if found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
