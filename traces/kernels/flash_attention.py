"""Computes flash attention: keys in tiles, a running maximum and sum per query, no score matrix in memory.

For a tile of 128 queries and one of 256 keys: scores in PSUM, the new row maximum, probabilities
with their row sum from one activation, the probabilities transposed through PSUM, and their product
with the values, added to an output that is first scaled by how much the maximum has risen.

Engines run in order. So the scores of the next step are asked for before the transposes of this
one, which wait for ScalarE: TensorE is then never idle while the exponentials are computed.
"""
import numpy as np

ABOUT = "softmax(q k.T / sqrt(d)) v, 512 queries, 512 keys, d = 128, bf16, online softmax"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=0.0042, atol=8e-4,
                 why="o is rounded to bf16 (2^-8); so are the 512 weights of each sum, which alone "
                     "moves the outputs by 1.1e-4 (root mean square), 5e-4 at most")
QUERIES, KEYS, D, P, TILE = 512, 512, 128, 128, 256
SCALE = D ** -0.5


def build(t):
    q_t = t.input("qT", (D, QUERIES), "bfloat16", generator="normal", seed=71)
    k_t = t.input("kT", (D, KEYS), "bfloat16", generator="normal", seed=72)
    v = t.input("v", (KEYS, D), "bfloat16", generator="normal", seed=73)
    o = t.output("o", (QUERIES, D), "bfloat16")
    q_tile = t.sbuf("q_tile", (D, QUERIES), "bfloat16")
    k_tile = t.sbuf("k_tile", (D, KEYS), "bfloat16")
    v_tile = t.sbuf("v_tile", (P, KEYS // P, D), "bfloat16")
    t.dma_copy(dst=k_tile, src=k_t, label="load kT")
    t.dma_copy(dst=q_tile, src=q_t, label="load qT")
    for j in range(KEYS // P):
        t.dma_copy(dst=v_tile[:, j, :], src=v[j * P:(j + 1) * P, :], label=f"load v {j}")

    queries = range(QUERIES // P)
    state = [State(t, q) for q in queries]
    # Buffers used alternately, so that one step can start while the one before still finishes.
    work = [Work(t, n) for n in range(2)]
    steps = [(q, k) for k in range(0, KEYS, TILE) for q in queries]
    scores(t, q_tile, k_tile, work[0], *steps[0])
    for n, (q, k) in enumerate(steps):
        if n + 1 < len(steps):
            scores(t, q_tile, k_tile, work[(n + 1) % 2], *steps[n + 1])
        update(t, work[n % 2], state[q], v_tile, q, k)
    for q in queries:
        t.reciprocal(dst=state[q].scale, data=state[q].total, label=f"1/sum q{q}")
        t.tensor_scalar(dst=state[q].result, data=state[q].output, op0="multiply",
                        operand0=state[q].scale, engine="vector", label=f"normalise q{q}")
        t.dma_copy(dst=o[q * P:(q + 1) * P, :], src=state[q].result, label=f"store q{q}")


class State:
    """The state of 128 queries between key tiles."""

    def __init__(self, t, q):
        # Two maxima alternate: the old one is still needed when the new one is known.
        self.maximum = [t.sbuf(f"max{q}_{n}", (P, 1), "float32") for n in range(2)]
        self.total = t.sbuf(f"total{q}", (P, 1), "float32")
        self.scale = t.sbuf(f"scale{q}", (P, 1), "float32")
        self.output = t.sbuf(f"output{q}", (P, D), "float32")
        self.result = t.sbuf(f"result{q}", (P, D), "bfloat16")


class Work:
    """Buffers of one step."""

    def __init__(self, t, n):
        self.scores = t.psum(f"scores{n}", (P, TILE))
        self.turned = t.psum(f"turned{n}", (P, TILE), "bfloat16")
        self.product = t.psum(f"product{n}", (P, D))
        self.p = t.sbuf(f"p{n}", (P, TILE), "bfloat16")
        self.p_t = t.sbuf(f"pT{n}", (P, TILE), "bfloat16")
        self.tile_max = t.sbuf(f"tile_max{n}", (P, 1), "float32")
        self.minus_max = t.sbuf(f"minus_max{n}", (P, 1), "float32")
        self.tile_sum = t.sbuf(f"tile_sum{n}", (P, 1), "float32")
        self.fade = t.sbuf(f"fade{n}", (P, 1), "float32")


def scores(t, q_tile, k_tile, w, q, k):
    t.nc_matmul(dst=w.scores, stationary=q_tile[:, q * P:(q + 1) * P],
                moving=k_tile[:, k:k + TILE], accumulate=False, label=f"scores q{q} k{k}")


def update(t, w, s, v_tile, q, k):
    first = k == 0
    old, new = s.maximum[(k // TILE + 1) % 2], s.maximum[k // TILE % 2]
    t.tensor_reduce(dst=new if first else w.tile_max, op="max", data=w.scores, axis=[1],
                    label=f"row max q{q} k{k}")
    if not first:
        t.tensor_tensor(dst=new, data1=old, data2=w.tile_max, op="max", engine="vector")
    t.tensor_scalar(dst=w.minus_max, data=new, op0="multiply", operand0=-SCALE, engine="vector")
    total = s.total if first else w.tile_sum
    t.activation(dst=w.p, op="exp", data=w.scores, scale=SCALE, bias=w.minus_max, reduce_op="add",
                 reduce_res=total, reduce_cmd="reset_reduce", label=f"p q{q} k{k}")
    if not first:
        # The sums so far count exp(old maximum - new maximum) of what they did.
        t.activation(dst=w.fade, op="exp", data=old, scale=SCALE, bias=w.minus_max)
        t.scalar_tensor_tensor(dst=s.total, data=s.total, op0="multiply", operand0=w.fade,
                               op1="add", operand1=w.tile_sum)
    for j in range(TILE // P):
        part = slice(j * P, (j + 1) * P)
        t.nc_transpose(dst=w.turned[:, part], data=w.p[:, part], engine="tensor",
                       label=f"pT q{q} k{k + j * P}")
    t.tensor_copy(dst=w.p_t, src=w.turned, engine="vector")
    for j in range(TILE // P):
        t.nc_matmul(dst=w.product, stationary=w.p_t[:, j * P:(j + 1) * P],
                    moving=v_tile[:, k // P + j, :], accumulate=j > 0,
                    label=f"p v q{q} k{k + j * P}")
    if first:
        t.tensor_copy(dst=s.output, src=w.product, engine="vector")
    else:
        t.scalar_tensor_tensor(dst=s.output, data=s.output, op0="multiply", operand0=w.fade,
                               op1="add", operand1=w.product)


def golden(x):
    q, k, v = (x[name].astype(np.float64) for name in ("qT", "kT", "v"))
    s = q.T @ k * SCALE
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return {"o": p @ v / p.sum(axis=1, keepdims=True)}
