"""Tests the edge cases of nki.collectives: the refused calls with their messages, and the defined
ones.
"""

import ml_dtypes
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

X = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
PAIR = ncc.ReplicaGroup([[0, 1]])
FOUR = ncc.ReplicaGroup([[0, 1, 2, 3]])


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def sbuf(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def staged(x, call, shape=None, make=hbm):
    src, dst, out = make(x.shape, x.dtype), make(shape or x.shape, x.dtype), hbm(shape or x.shape, x.dtype)
    nisa.dma_copy(dst=src, src=x)
    call(src, dst)
    nisa.dma_copy(dst=out, src=dst)
    return out


def run(call, ranks=2, x=X, shape=None, make=hbm, **options):
    given = x if isinstance(x, np.ndarray) else nkisim.per_rank(x)
    return nkisim.run(lambda x: staged(x, call, shape, make), given, ranks=ranks, **options)


def assert_refused(match, call, **options):
    """Refused alike untimed and in time, at this file's line of the call."""
    for timing in (False, True):
        with pytest.raises(nkisim.Error, match=match) as found:
            run(call, timing=timing, **options)
        assert "test_world_edges.py" in str(found.value)


def reduce(group, op=nl.add):
    return lambda s, d: ncc.all_reduce([s], [d], group, op)


def test_1_groups():
    assert_refused("rank 1 twice; groups that do not overlap", reduce(ncc.ReplicaGroup([[0, 1], [1]])))
    assert_refused("rank 0 twice", reduce(ncc.ReplicaGroup([[0, 0]])))
    assert_refused("rank 2; a rank below 2", reduce(ncc.ReplicaGroup([[0, 2]])))


def test_2_a_rank_in_no_group_takes_no_part():
    def kernel(x):
        src, dst, out = (hbm(x.shape) for _ in range(3))
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=dst, src=x)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[1, 3]]), nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    x = [X * r for r in range(4)]
    for options in ({"timing": False}, {}, {"fold": False}):
        found = nkisim.run(kernel, nkisim.per_rank(x), ranks=4, **options).outputs
        for rank, expected in enumerate((x[0], x[1] + x[3], x[2], x[1] + x[3])):
            np.testing.assert_array_equal(found[rank], expected)


def different(first, second):
    """A kernel whose ranks make different calls."""
    def kernel(x, which):
        return (first if which == 0 else second)(x)
    return kernel


def test_3_ranks_that_disagree():
    cases = [
        (lambda x: staged(x, reduce(PAIR)), lambda x: staged(x, reduce(PAIR, nl.maximum)), "op is another"),
        (lambda x: staged(x, reduce(PAIR)),
         lambda x: staged(x, lambda s, d: ncc.all_reduce([s[0:2]], [d[0:2]], PAIR, nl.add)),
         r"srcs is hbm\[2 x 8\] float32, not hbm\[4 x 8\] float32"),
        (lambda x: staged(x, reduce(PAIR)),
         lambda x: staged(x, lambda s, d: ncc.all_to_all([s], [d], PAIR, 0)), "another instruction"),
        (lambda x: staged(x, reduce(PAIR)),
         lambda x: staged(x, reduce(ncc.ReplicaGroup([[1, 0]]))), "replica_group is another"),
        (lambda x: staged(x, reduce(PAIR)),
         lambda x: staged(x, lambda s, d: ncc.all_reduce([hbm((4, 8), nl.int32)], [hbm((4, 8), nl.int32)],
                                                         PAIR, nl.add)),
         r"srcs is hbm\[4 x 8\] int32, not hbm\[4 x 8\] float32"),
    ]
    for first, second, what in cases:
        said = []
        for timing in (False, True):
            with pytest.raises(nkisim.Error, match=what) as found:
                nkisim.run(different(first, second), X, nkisim.per_rank([0, 1]), ranks=2,
                           any_world=True, timing=timing)
            message = str(found.value)
            assert "rank 0 calls" in message and "rank 1 calls" in message
            assert message.count("test_world_edges.py:") >= 2
            said.append(message)
        assert said[0] == said[1]


def test_3_ranks_that_wait_for_each_other():
    def short(x):
        return staged(x, reduce(PAIR))

    def long(x):
        staged(x, reduce(PAIR))
        return staged(x, reduce(PAIR))

    def crossed(first, second):
        def kernel(x):
            staged(x, reduce(ncc.ReplicaGroup([first])))
            return staged(x, reduce(ncc.ReplicaGroup([second])))
        return kernel

    def kernel(x, which):
        return [crossed([0, 1], [0, 2]), crossed([1, 2], [0, 1]), crossed([0, 2], [1, 2])][which](x)

    for timing in (False, True):
        with pytest.raises(nkisim.Error, match="rank 1 waits in all_reduce at .* for rank 0, which has "
                                               "ended without the matching call"):
            nkisim.run(different(short, long), X, nkisim.per_rank([0, 1]), ranks=2, timing=timing)
        with pytest.raises(nkisim.Error, match="deadlock: rank 0 waits in all_reduce at .*py:\\d+ for "
                                               "rank 1, which waits .* for rank 2, which waits .* "
                                               "for rank 0"):
            nkisim.run(kernel, X, nkisim.per_rank([0, 1, 2]), ranks=3, any_world=True, timing=timing)


def test_4_memories_and_lists():
    assert_refused("all in HBM or all in SBUF",
            lambda s, d: ncc.all_reduce([s], [sbuf((4, 8))], PAIR, nl.add))
    assert_refused("2 tiles in SBUF; one tile", lambda s, d: ncc.all_reduce([s, sbuf((4, 8))], [d, sbuf((4, 8))],
                                                                    PAIR, nl.add), make=sbuf)
    assert_refused("as many tensors as srcs", lambda s, d: ncc.all_reduce([s, hbm((4, 8))], [d], PAIR, nl.add))
    assert_refused("empty list; at least one", lambda s, d: ncc.all_reduce([], [], PAIR, nl.add))
    assert_refused("the dtype of srcs", lambda s, d: ncc.all_reduce([s], [hbm((4, 8), nl.bfloat16)], PAIR, nl.add))


def test_5_dimensions():
    def gather(dim, shape):
        return lambda s, d: ncc.all_gather([s], [hbm(shape)], PAIR, dim)

    assert_refused("collective_dim is 1; 0, or 1 for tiles in SBUF", gather(1, (4, 16)))
    assert_refused("collective_dim is 2", gather(2, (8, 8)))
    assert_refused("collective_dim is -1", gather(-1, (8, 8)))
    assert_refused("collective_dim is 1; 0", lambda s, d: ncc.reduce_scatter([s], [hbm((4, 4))], PAIR, 1, nl.add))


def test_6_sizes():
    assert_refused("2 times srcs", lambda s, d: ncc.all_gather([s], [d], PAIR, 0))
    assert_refused("one part in 2 of srcs", lambda s, d: ncc.reduce_scatter([s], [hbm((3, 8))], PAIR, 0, nl.add))
    assert_refused("a dimension 0 that 4 ranks can share", lambda s, d: ncc.all_to_all(
        [hbm((6, 8))], [hbm((6, 8))], FOUR, 0), ranks=4)
    assert_refused("the shape of srcs", lambda s, d: ncc.all_reduce([s], [hbm((4, 9))], PAIR, nl.add))
    assert_refused("groups of one size", lambda s, d: ncc.all_gather(
        [s], [hbm((8, 8))], ncc.ReplicaGroup([[0, 1], [2]]), 0), ranks=4)


def test_7_what_has_no_form_in_sbuf_and_groups_of_all_to_all():
    assert_refused("HBM", lambda s, d: ncc.all_to_all([s], [d], FOUR, 0), ranks=4, make=sbuf)
    assert_refused("HBM", lambda s, d: ncc.collective_permute([s], [d], [(0, 1), (1, 0)]), make=sbuf)
    for groups in ([[0, 1]], [[0, 2, 1, 3]]):
        group = ncc.ReplicaGroup(groups)
        assert_refused("more than two ranks in sequence", lambda s, d: ncc.all_to_all([s], [d], group, 0), ranks=4)
    r = run(lambda s, d: ncc.all_to_all([s], [d], PAIR, 0), any_world=True, x=[X, 2 * X])
    np.testing.assert_array_equal(r[0].outputs, np.concatenate([X[:2], 2 * X[:2]]))


@pytest.mark.parametrize("ids", [[0, 2], [1], [1, 0], [0, 1, 2, 3, 4], []])
def test_8_channel_ids(ids):
    def call(s, d):
        ncc.collective_permute_implicit([[s]] * len(ids), [[d]] * len(ids), PAIR, channel_ids=ids)

    assert_refused("channel_ids is|at least one tensor|overlap", call)


def test_8_more_than_two_channels_take_a_whole_instance():
    def call(s, d):
        ncc.collective_permute_implicit([[s[i:i + 1]] for i in range(4)], [[d[i:i + 1]] for i in range(4)],
                                        FOUR, channel_ids=[0, 1, 2, 3])

    assert_refused("4 channels; at most 2", call, ranks=4)
    r = run(call, ranks=4, any_world=True, x=[X * r for r in range(4)])
    np.testing.assert_array_equal(r[0].outputs, 3 * X)


def test_8_one_tensor_for_each_channel():
    assert_refused("a list of lists of one tensor",
            lambda s, d: ncc.collective_permute_implicit([s], [d], PAIR))
    assert_refused("one for each of the 1 channels",
            lambda s, d: ncc.collective_permute_implicit([[s[0:2]], [s[2:4]]], [[d[0:2]], [d[2:4]]], PAIR))


def test_9_permutes():
    assert_refused("target 1 twice", lambda s, d: ncc.collective_permute([s], [d], [(0, 1), (2, 1)]), ranks=4)
    assert_refused("source 0 twice", lambda s, d: ncc.collective_permute([s], [d], [(0, 1), (0, 2)]), ranks=4)
    assert_refused("pairs", lambda s, d: ncc.collective_permute([s], [d], [(0, 1, 2)]), ranks=4)
    x = [X * r for r in range(4)]
    for pairs in ([(0, 0), (1, 2), (2, 1), (3, 3)], [(0, 2), (2, 0), (1, 3), (3, 1)]):
        found = run(lambda s, d: ncc.collective_permute([s], [d], pairs), ranks=4, x=x).outputs
        for source, target in pairs:
            np.testing.assert_array_equal(found[target], x[source])


def test_10_arguments_are_no_operands():
    def from_input(x):
        out = hbm(x.shape)
        ncc.all_reduce([x], [out], PAIR, nl.add)
        return out

    def to_output(x):
        src, out = hbm(x.shape), hbm(x.shape)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [out], PAIR, nl.add)
        return out

    for kernel, what in ((from_input, "an input of the kernel"), (to_output, "an output of the kernel")):
        with pytest.raises(nkisim.Error, match=f"{what}; a tensor of the kernel's own in shared_hbm"):
            nkisim.run(kernel, X, ranks=2)
        found = nkisim.run(kernel, X, ranks=2, any_world=True)
        np.testing.assert_array_equal(found[1].outputs, X + X)


def test_11_the_order_of_the_program_is_kept():
    """The source changes right behind the call, and the result is read at once."""
    def kernel(x):
        src, dst, out, zero = hbm(x.shape), hbm(x.shape), hbm(x.shape), sbuf(x.shape)
        nisa.memset(zero, 0.0)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], PAIR, nl.add)
        nisa.dma_copy(dst=src, src=zero)
        nisa.dma_copy(dst=out, src=dst)
        return out

    def without(x):
        src, out, zero = hbm(x.shape), hbm(x.shape), sbuf(x.shape)
        nisa.memset(zero, 0.0)
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=out, src=src)
        return out

    found = nkisim.run(kernel, X, ranks=2)
    np.testing.assert_array_equal(found[0].outputs, X + X)
    alone = nkisim.run(without, X, ranks=2)
    assert found.latency_ns > alone.latency_ns + 5000  # both copies wait for it


def test_12_in_place_and_overlapping():
    def kernel(x, call):
        data, out = hbm(x.shape), hbm(x.shape)
        nisa.dma_copy(dst=data, src=x)
        call(data)
        nisa.dma_copy(dst=out, src=data)
        return out

    found = nkisim.run(kernel, nkisim.per_rank([X, 3 * X]),
                       lambda d: ncc.all_reduce([d], [d], PAIR, nl.add), ranks=2)
    np.testing.assert_array_equal(found[1].outputs, X + 3 * X)
    for call in (lambda d: ncc.all_reduce([d[0:2]], [d[1:3]], PAIR, nl.add),
                 lambda d: ncc.all_to_all([d], [d], PAIR, 0),
                 lambda d: ncc.all_gather([d[0:2]], [d], PAIR, 0)):
        with pytest.raises(nkisim.Error, match="overlapping srcs"):
            nkisim.run(kernel, X, call, ranks=2, any_world=True)


def test_13_both_cores_call():
    def one_core(x):
        src, dst, out = (hbm(x.shape) for _ in range(3))
        nisa.dma_copy(dst=src, src=x)
        if nl.program_id(0) == 0:
            ncc.all_reduce([src], [dst], PAIR, nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    def halves(x):
        core = nl.program_id(0)
        src, dst, out = (hbm(x.shape) for _ in range(3))
        half = slice(2 * core, 2 * core + 2)
        nisa.dma_copy(dst=src[half], src=x[half])
        ncc.all_reduce([src], [dst], PAIR, nl.add)
        nisa.dma_copy(dst=out[half], src=dst[half])
        return out

    def sliced(x):
        core = nl.program_id(0)
        src, dst, out = (hbm(x.shape) for _ in range(3))
        half = slice(2 * core, 2 * core + 2)
        nisa.dma_copy(dst=src[half], src=x[half])
        ncc.all_reduce([src[half]], [dst[half]], PAIR, nl.add)
        nisa.dma_copy(dst=out[half], src=dst[half])
        return out

    for timing in (False, True):
        with pytest.raises(nkisim.Error, match="core 0 waits here for another core, which ends without"):
            nkisim.run(one_core, X, ranks=2, lnc=2, timing=timing, allow_races=True)
        with pytest.raises(nkisim.Error, match="another tensor in HBM, or another part of it"):
            nkisim.run(sliced, X, ranks=2, lnc=2, timing=timing, allow_races=True)
    with pytest.raises(nkisim.Error, match="all_reduce.*dma_copy|dma_copy.*all_reduce|race"):
        nkisim.run(halves, X, ranks=2, lnc=2)


def counted(x, meta, before, known=False, displs=False):
    src, dst, counts, out = hbm(x.shape), hbm(before.shape), hbm(meta.shape, nl.uint32), hbm(before.shape)
    seen = hbm(meta.shape, nl.uint32)
    nisa.dma_copy(dst=src, src=x)
    nisa.dma_copy(dst=dst, src=before)
    nisa.dma_copy(dst=counts, src=meta)
    ncc.all_to_all_v([src], [dst], PAIR, counts, recv_counts_known=known, has_rdispls=displs)
    nisa.dma_copy(dst=out, src=dst)
    nisa.dma_copy(dst=seen, src=counts)
    return out, seen


def test_14_variable_lengths():
    x = [np.arange(8, dtype=np.float32) + 10 * r for r in range(2)]
    before = np.full(8, -1, np.float32)

    def go(metas, displs=False):
        return nkisim.run(counted, nkisim.per_rank(x),
                          nkisim.per_rank([np.array(m, np.uint32) for m in metas]), before,
                          displs=displs, ranks=2, any_world=True)

    found = go([[[1, 0], [2, 0], [9, 9]], [[3, 2], [0, 6], [9, 9]]])
    np.testing.assert_array_equal(found[0].outputs[0], [2, -1, -1, -1, 10, 11, 12, -1])
    np.testing.assert_array_equal(found[1].outputs[0], [-1, -1, -1, -1, 16, 17, -1, -1])
    np.testing.assert_array_equal(found[0].outputs[1][2], [1, 3])
    np.testing.assert_array_equal(found[1].outputs[1][2], [0, 2])
    ok = [[1, 1], [0, 0], [0, 0]]
    with pytest.raises(nkisim.Error, match=r"rank 1: send_counts.*elements 7..9 of src; it has 8"):
        go([ok, [[2, 0], [7, 0], [0, 0]]])
    with pytest.raises(nkisim.Error, match="rank 0: the block of 5 elements from rank 1 goes to element 4 of "
                                           "dst; it has 8"):
        go([ok, [[5, 0], [0, 0], [0, 0]]])
    with pytest.raises(nkisim.Error, match="rank 0: a received block of 5 elements at element 0 reaches"):
        go([[[5, 1], [0, 0], [0, 0]], ok])
    with pytest.raises(nkisim.Error, match="rank 0: the block of 1 elements from rank 1 goes to element 8"):
        go([[*ok, [0, 8]], [*ok, [0, 1]]], displs=True)


def test_14_groups_that_the_device_takes():
    meta = np.zeros((3, 2), np.uint32)
    with pytest.raises(nkisim.Error, match="LNC 2"):
        nkisim.run(counted, X.reshape(-1)[:8], meta, np.zeros(8, np.float32), ranks=2)


def test_15_priority():
    def call(s, d):
        ncc.all_reduce([s], [d], PAIR, nl.add, priority=1)

    assert_refused("priority", call)
    np.testing.assert_array_equal(run(call, target="trn3")[0].outputs, X + X)
    assert_refused("priority", lambda s, d: ncc.all_reduce([s], [d], PAIR, nl.add, priority=4), target="trn3")


def test_16_operators():
    assert_refused("op is multiply; add, minimum or maximum", reduce(PAIR, nl.multiply))
    assert_refused("op is subtract", lambda s, d: ncc.reduce_scatter([s], [hbm((2, 8))], PAIR, 0, nl.subtract))


def test_17_worlds():
    assert_refused("a group of one rank; at least two", reduce(ncc.ReplicaGroup([[0], [1]])))
    for ranks in (3, 6, 48):
        with pytest.raises(nkisim.Error, match="1, 2, 4, 8, 16 or a multiple of 32"):
            run(reduce(ncc.ReplicaGroup([list(range(ranks))])), ranks=ranks)
    for ranks in (3, 6):
        found = run(reduce(ncc.ReplicaGroup([list(range(ranks))])), ranks=ranks, any_world=True)
        np.testing.assert_array_equal(found[0].outputs, ranks * X if ranks == 3 else found[1].outputs)
    found = run(reduce(ncc.ReplicaGroup([[0], [1]])), any_world=True)
    np.testing.assert_array_equal(found[1].outputs, X)
    for ranks in (0, -1, 5000):
        with pytest.raises(nkisim.Error, match="ranks is"):
            run(reduce(PAIR), ranks=ranks)


def test_17_empty_tensors():
    with pytest.raises(nkisim.Error, match="empty|size 0|elements"):
        run(lambda s, d: ncc.reduce_scatter([s[0:0]], [d[0:0]], PAIR, 0, nl.add))


def test_18_not_a_number_and_narrow_types():
    x = [X.copy(), X.copy()]
    x[0][0, 0], x[1][1, 1] = np.nan, np.nan
    for op, reference in ((nl.maximum, np.maximum), (nl.minimum, np.minimum), (nl.add, np.add)):
        found = run(reduce(PAIR, op), x=x).outputs
        np.testing.assert_array_equal(found[0], reference(x[0], x[1]))
    group = ncc.ReplicaGroup([list(range(64))])
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        values = [np.random.default_rng(r).standard_normal((2, 64)).astype(dtype) for r in range(64)]
        total = values[0].astype(np.float32)
        for value in values[1:]:
            total = total + value.astype(np.float32)
        runs = [run(reduce(group), ranks=64, x=values, timing=timing).outputs for timing in (False, True)]
        for found in runs[0] + runs[1]:
            assert found.tobytes() == total.astype(dtype).tobytes()


def test_19_two_channels_are_in_flight_together():
    def kernel(x, channels):
        size = 64 // channels
        src, dst, out = hbm(x.shape), hbm(x.shape), hbm(x.shape)
        nisa.dma_copy(dst=src, src=x)
        parts = [slice(c * size, (c + 1) * size) for c in range(channels)]
        ncc.collective_permute_implicit([[src[p]] for p in parts], [[dst[p]] for p in parts], FOUR,
                                        channel_ids=list(range(channels)))
        nisa.dma_copy(dst=out, src=dst)
        return out

    def two_calls(x):
        src, dst, out = hbm(x.shape), hbm(x.shape), hbm(x.shape)
        nisa.dma_copy(dst=src, src=x)
        for part in (slice(0, 32), slice(32, 64)):
            ncc.collective_permute_implicit([[src[part]]], [[dst[part]]], FOUR)
        nisa.dma_copy(dst=out, src=dst)
        return out

    x = np.zeros((64, 4096), np.float32)
    together = nkisim.run(kernel, x, 2, ranks=4, lnc=2).latency_ns
    in_order = nkisim.run(two_calls, x, ranks=4, lnc=2).latency_ns
    assert together < in_order  # calls of one stream keep their order


def loads(x, count):
    """A kernel that reads from HBM as fast as it can."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_20_ranks_of_a_pair_of_cores_share_their_stack():
    x = np.zeros((128, 4096), np.float32)
    alone = nkisim.run(loads, x, 24, ranks=1, any_world=True, target="trn2").latency_ns
    world = nkisim.run(loads, x, 24, ranks=4, fold=False, target="trn2")
    ends = [rank.latency_ns for rank in world]
    assert ends[0] == ends[2] and ends[1] == ends[3]  # two stacks, two ranks on each
    assert min(ends) > 1.01 * alone  # two cores ask for more than their stack has
    assert max(ends) < 1.03 * min(ends)


def test_21_ranks_far_apart_take_another_time_and_give_the_same():
    def kernel(group):
        return lambda x: staged(x, reduce(group))

    x = [np.random.default_rng(r).standard_normal((128, 512)).astype(np.float32) for r in range(16)]
    near = [list(range(i, i + 4)) for i in range(0, 16, 4)]
    far = [[i, i + 4, i + 8, i + 12] for i in range(4)]
    found = {}
    for name, groups in (("near", near), ("far", far)):
        # Ranks are numbered so that both compute the same sums.
        inputs = [x[r] for r in range(16)] if name == "near" else [x[4 * (r % 4) + r // 4] for r in range(16)]
        found[name] = nkisim.run(kernel(ncc.ReplicaGroup(groups)), nkisim.per_rank(inputs), ranks=16, lnc=2)
    for r in range(16):
        np.testing.assert_array_equal(found["far"][r].outputs,
                                      found["near"][4 * (r % 4) + r // 4].outputs)
    assert found["near"].latency_ns != found["far"].latency_ns


def test_22_late_ranks():
    def kernel(x, late):
        tile = sbuf(x.shape)
        nisa.dma_copy(dst=tile, src=x)
        for _ in range(late):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=nisa.vector_engine)
        src, dst, out = hbm(x.shape), hbm(x.shape), hbm(x.shape)
        nisa.dma_copy(dst=src, src=tile)
        ncc.all_reduce([src], [dst], PAIR, nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    both = nkisim.run(kernel, X, nkisim.per_rank([0, 0]), ranks=2)
    skewed = nkisim.run(kernel, X, nkisim.per_rank([0, 200]), ranks=2)
    late = X.copy()
    for _ in range(200):
        late = late + np.float32(1)
    np.testing.assert_array_equal(skewed[0].outputs, X + late)
    assert skewed[0].latency_ns > both[0].latency_ns + 5000  # the early one waits for the late one
    assert abs(skewed[0].latency_ns - skewed[1].latency_ns) < 1000
