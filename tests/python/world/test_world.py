"""Tests the functions of nki.collectives on several ranks against NumPy, with and without timing."""

import ml_dtypes
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

RNG = np.random.default_rng(5)
BF16 = ml_dtypes.bfloat16


def staged(x, shape, call, buffer=None):
    """The kernel that copies x to a tensor of its own, hands call(src, dst) one of `shape`, and
    returns that."""
    buffer = buffer or nl.shared_hbm
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=buffer)
    dst = nl.ndarray(shape, dtype=x.dtype, buffer=buffer)
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    call(src, dst)
    nisa.dma_copy(dst=out, src=dst)
    return out


def run(kernel, inputs, ranks, **options):
    """Outputs of the ranks: the same bytes untimed, in time, and in time rank by rank."""
    options.setdefault("any_world", True)
    given = nkisim.per_rank(inputs)
    found = [nkisim.run(kernel, given, ranks=ranks, timing=timing, fold=fold, **options)
             for timing, fold in ((False, True), (True, True), (True, False))]
    for other in found[1:]:
        for a, b in zip(found[0].outputs, other.outputs):
            assert a.tobytes() == b.tobytes()
    folded, single = found[1:]
    assert [r.latency_ns for r in folded] == [r.latency_ns for r in single]
    assert single.latency_ns > 0
    return found[0].outputs


def data(ranks, shape, dtype=np.float32):
    return [RNG.standard_normal(shape).astype(np.float32).astype(dtype) for _ in range(ranks)]


def groups_of(ranks, size):
    return [list(range(i, i + size)) for i in range(0, ranks, size)]


def summed(parts, op=np.add):
    """From left to right in FP32, rounded once."""
    total = parts[0].astype(np.float32)
    for part in parts[1:]:
        total = op(total, part.astype(np.float32))
    return total.astype(parts[0].dtype)


REDUCE = {"add": (nl.add, np.add), "maximum": (nl.maximum, np.maximum),
          "minimum": (nl.minimum, np.minimum)}


@pytest.mark.parametrize("op", REDUCE)
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16, ml_dtypes.float8_e5m2, np.int32,
                                   np.int8], ids=lambda d: np.dtype(d).name)
def test_all_reduce(op, dtype):
    function, reference = REDUCE[op]
    x = [(40 * v).astype(dtype) for v in data(4, (128, 24))]
    group = ncc.ReplicaGroup([[2, 0], [1, 3]])
    found = run(lambda x: staged(x, x.shape, lambda s, d: ncc.all_reduce([s], [d], group, function)),
                x, 4)
    for members in group.groups:
        if np.issubdtype(np.dtype(dtype), np.integer):
            info = np.iinfo(dtype)
            wide = [x[r].astype(np.int64) for r in members]
            expected = np.clip(reference(*wide), info.min, info.max).astype(dtype)
        else:
            expected = summed([x[r] for r in members], reference)
        for rank in members:
            np.testing.assert_array_equal(found[rank], expected)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_sums_follow_the_groups_order(ranks):
    x = [v * 10.0 ** RNG.integers(-6, 6) for v in data(ranks, (16, 8))]
    x = [v.astype(np.float32) for v in x]
    order = [int(r) for r in RNG.permutation(ranks)]
    group = ncc.ReplicaGroup([order])
    found = run(lambda x: staged(x, x.shape, lambda s, d: ncc.all_reduce([s], [d], group, nl.add)),
                x, ranks)
    expected = summed([x[r] for r in order])
    for each in found:
        np.testing.assert_array_equal(each, expected)
    if ranks > 2:  # the order matters here
        assert not np.array_equal(expected, summed([x[r] for r in order[::-1]]))


@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.sbuf], ids=["hbm", "sbuf"])
@pytest.mark.parametrize("size", [2, 4])
def test_all_gather_along_dimension_0(buffer, size):
    x = data(4, (16, 8), BF16)
    group = ncc.ReplicaGroup(groups_of(4, size))
    found = run(lambda x: staged(x, (16 * size, 8), lambda s, d: ncc.all_gather(
        [s], [d], group, collective_dim=0), buffer), x, 4)
    for members in group.groups:
        for rank in members:
            np.testing.assert_array_equal(found[rank], np.concatenate([x[r] for r in members]))


def test_all_gather_of_tiles_along_the_free_dimension():
    x = data(8, (128, 6))
    group = ncc.ReplicaGroup([list(range(8))])
    found = run(lambda x: staged(x, (128, 48), lambda s, d: ncc.all_gather(
        [s], [d], group, collective_dim=1), nl.sbuf), x, 8)
    for each in found:
        np.testing.assert_array_equal(each, np.concatenate(x, axis=1))


@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.sbuf], ids=["hbm", "sbuf"])
def test_reduce_scatter(buffer):
    x = data(4, (64, 8))
    group = ncc.ReplicaGroup([[3, 1, 0, 2]])
    found = run(lambda x: staged(x, (16, 8), lambda s, d: ncc.reduce_scatter(
        [s], [d], group, 0, nl.add), buffer), x, 4)
    total = summed([x[r] for r in group.groups[0]])
    for i, rank in enumerate(group.groups[0]):
        np.testing.assert_array_equal(found[rank], total[16 * i:16 * (i + 1)])


def test_all_to_all():
    x = data(4, (8, 6))
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])
    found = run(lambda x: staged(x, x.shape, lambda s, d: ncc.all_to_all([s], [d], group, 0)), x, 4,
                any_world=False)
    for j in range(4):
        np.testing.assert_array_equal(found[j], np.concatenate([x[i][2 * j:2 * j + 2] for i in range(4)]))


def test_several_tensors_in_hbm_go_together():
    def kernel(x):
        small = nl.ndarray((2, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        sums = [nl.ndarray(s, dtype=x.dtype, buffer=nl.shared_hbm) for s in (x.shape, (2, 8))]
        out = nl.ndarray((2, 8), dtype=x.dtype, buffer=nl.shared_hbm)

        def call(src, dst):
            nisa.dma_copy(dst=small, src=src[2:4])
            ncc.all_reduce([src, small], [dst, sums[1]], ncc.ReplicaGroup([[0, 1]]), nl.add)
            nisa.dma_copy(dst=out, src=sums[1])

        return staged(x, x.shape, call), out

    x = data(2, (4, 8))
    r = nkisim.run(kernel, nkisim.per_rank(x), ranks=2)
    for whole, part in r.outputs:
        np.testing.assert_array_equal(whole, x[0] + x[1])
        np.testing.assert_array_equal(part, (x[0] + x[1])[2:4])


def test_collective_permute_leaves_ranks_alone_that_are_no_target():
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=dst, src=x)
        ncc.collective_permute([src], [dst], [(0, 2), (2, 3)])
        nisa.dma_copy(dst=out, src=dst)
        return out

    x = data(4, (4, 8))
    found = run(kernel, x, 4)
    for rank, source in enumerate([0, 1, 0, 2]):
        np.testing.assert_array_equal(found[rank], x[source])


RINGS = ["group", "reverse", "shuffle:1", "shuffle:2"]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("channels", [1, 2])
def test_going_round_the_ring_gathers(ring, channels):
    """The kernel asks whose data it holds, so that every ring gives the same."""
    ranks, rows = 4, 2
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])

    def kernel(x):
        out = nl.ndarray((ranks, channels * rows, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        buffers = [nl.ndarray((channels, rows, 8), dtype=x.dtype, buffer=nl.shared_hbm)
                   for _ in range(2)]
        nisa.dma_copy(dst=buffers[0].reshape((channels * rows, 8)), src=x)
        for step in range(ranks):
            held, free = buffers[step % 2], buffers[1 - step % 2]
            for channel in range(channels):
                rank = ncc.collective_permute_implicit_current_processing_rank_id(
                    iteration_id=step, channel_id=channel, replica_group=group)
                nisa.dma_copy(dst=out.ap([[8, rows], [1, 8]], offset=channel * rows * 8,
                                         scalar_offset=rank, indirect_dim=0), src=held[channel])
            if step < ranks - 1:
                ncc.collective_permute_implicit([[held[c]] for c in range(channels)],
                                                [[free[c]] for c in range(channels)], group,
                                                channel_ids=list(range(channels)))
        return out

    x = data(ranks, (channels * rows, 8))
    for each in run(kernel, x, ranks, ring_order=ring):
        np.testing.assert_array_equal(each, np.stack(x))


def test_a_kernel_that_counts_on_one_ring_is_found_by_running_two():
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])

    def kernel(x):
        return staged(x, x.shape, lambda s, d: ncc.collective_permute_implicit([[s]], [[d]], group))

    x = data(4, (2, 8))
    forwards, backwards = (run(kernel, x, 4, ring_order=ring) for ring in ("group", "reverse"))
    for rank in range(4):
        np.testing.assert_array_equal(forwards[rank], x[rank - 1])
        np.testing.assert_array_equal(backwards[rank], x[(rank + 1) % 4])


def test_reducing_permutation():
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])

    def kernel(x):
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=other, src=x)
        return staged(x, x.shape, lambda s, d: ncc.collective_permute_implicit_reduce(
            [[s]], [[other]], [[d]], group, nl.add))

    x = data(4, (2, 8), BF16)
    found = run(kernel, x, 4)
    for rank in range(4):
        np.testing.assert_array_equal(found[rank], summed([x[rank - 1], x[rank - 1]]))


def test_the_rank_selects_a_slice():
    def kernel(table):
        out = nl.ndarray((4, 8), dtype=table.dtype, buffer=nl.shared_hbm)
        rank = ncc.rank_id()
        nisa.dma_copy(dst=out, src=table.ap([[8, 4], [1, 8]], scalar_offset=rank, indirect_dim=0))
        return out

    table = RNG.standard_normal((4, 4, 8)).astype(np.float32)
    found = nkisim.run(kernel, table, ranks=4)
    assert found.recordings == 1
    assert found.timed_as == [0, 1, 2, 3]  # none stands for another
    for rank, out in enumerate(found.outputs):
        np.testing.assert_array_equal(out, table[rank])


# ---- variable lengths ---------------------------------------------------------------------------
def counted(call, rows, known=False, displs=False):
    def kernel(x, meta, before):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dst = nl.ndarray(before.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        counts = nl.ndarray(meta.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
        out = nl.ndarray(before.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        seen = nl.ndarray(meta.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=dst, src=before)
        nisa.dma_copy(dst=counts, src=meta)
        call([src], [dst], ncc.ReplicaGroup([[0, 1, 2]]), counts, recv_counts_known=known,
             has_rdispls=displs)
        nisa.dma_copy(dst=out, src=dst)
        nisa.dma_copy(dst=seen, src=counts)
        return out, seen
    return kernel


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("displs", [False, True])
def test_all_to_all_v(known, displs):
    n, block = 3, 8
    counts = np.array([[3, 0, 8], [1, 5, 2], [4, 4, 0]], np.uint32)  # [from][to]
    begins = np.array([[0, 3, 3], [9, 0, 6], [2, 10, 0]], np.uint32)
    places = np.array([[16, 2, 9], [0, 7, 13], [1, 9, 16]], np.uint32)  # [at][from]
    x, before = data(n, (24,)), data(n, (n * block,))
    metas = []
    for r in range(n):
        rows = [counts[r], begins[r], np.full(n, 77, np.uint32)] + ([places[r]] if displs else [])
        metas.append(np.stack(rows))
    found = nkisim.run(counted(ncc.all_to_all_v, 3, known, displs), nkisim.per_rank(x),
                       nkisim.per_rank(metas), nkisim.per_rank(before), ranks=n, any_world=True)
    for to, (out, seen) in enumerate(found.outputs):
        expected = before[to].copy()
        for source in range(n):
            at = places[to][source] if displs else source * block
            length, begin = counts[source][to], begins[source][to]
            expected[at:at + length] = x[source][begin:begin + length]
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(seen[2], [77] * n if known else counts[:, to])


def test_all_gather_v():
    n, block = 3, 8
    lengths, begins = [2, 8, 0], [5, 0, 1]
    x, before = data(n, (8,)), data(n, (n * block,))
    metas = []
    for r in range(n):
        meta = np.zeros((3, n), np.uint32)
        meta[0, 0], meta[1, 0] = lengths[r], begins[r]
        metas.append(meta)
    found = nkisim.run(counted(ncc.all_gather_v, 3), nkisim.per_rank(x), nkisim.per_rank(metas),
                       nkisim.per_rank(before), ranks=n, any_world=True)
    for to, (out, seen) in enumerate(found.outputs):
        expected = before[to].copy()
        for source in range(n):
            expected[source * block:source * block + lengths[source]] = \
                x[source][begins[source]:begins[source] + lengths[source]]
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(seen[2], lengths)


# ---- pairs of cores ------------------------------------------------------------------------------
def test_cores_of_a_pair_exchange_their_own_tiles():
    group = ncc.ReplicaGroup([[0, 1]])

    def kernel(x):
        core = nl.program_id(0)
        tile = nl.ndarray((64, 8), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((64, 8), dtype=x.dtype, buffer=nl.sbuf)
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=tile, src=x[64 * core:64 * core + 64])
        ncc.all_reduce([tile], [total], group, nl.add)
        nisa.dma_copy(dst=out[64 * core:64 * core + 64], src=total)
        return out

    x = data(2, (128, 8))
    for each in run(kernel, x, 2, lnc=2):
        np.testing.assert_array_equal(each, x[0] + x[1])


def test_in_hbm_both_cores_call_one_operation():
    """In place, so that doing it twice would show."""
    group = ncc.ReplicaGroup([[0, 1]])

    def kernel(x):
        core = nl.program_id(0)
        half = slice(64 * core, 64 * core + 64)
        total = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=total[half], src=x[half])
        nisa.core_barrier(total, (0, 1))
        ncc.all_reduce([total], [total], group, nl.add)
        nisa.core_barrier(total, (0, 1))
        nisa.dma_copy(dst=out[half], src=total[half])
        return out

    x = data(2, (128, 8))
    for each in run(kernel, x, 2, lnc=2):
        np.testing.assert_array_equal(each, x[0] + x[1])


# ---- what ranks share ----------------------------------------------------------------------------
def double(x):
    return staged(x, x.shape, lambda s, d: ncc.all_reduce([s], [d], ncc.ReplicaGroup([[0, 1]]), nl.add))


def test_a_kernel_is_recorded_once_unless_ranks_differ_in_more_than_data():
    calls = []

    def kernel(x, factor):
        calls.append(factor)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=tile)
        return double(src)

    x = data(2, (4, 8))
    r = nkisim.run(kernel, nkisim.per_rank(x), 2.0, ranks=2)
    assert (calls, r.recordings) == ([2.0], 1)
    np.testing.assert_array_equal(r[0].outputs, 2 * x[0] + 2 * x[1])
    calls.clear()
    r = nkisim.run(kernel, nkisim.per_rank(x), nkisim.per_rank([2.0, 3.0]), ranks=2)
    assert (calls, r.recordings) == ([2.0, 3.0], 2)
    np.testing.assert_array_equal(r[1].outputs, 2 * x[0] + 3 * x[1])


def test_a_kernel_that_looks_at_values_is_recorded_for_each_rank():
    def kernel(x):
        tile = nl.load(x)
        return double(x) if np.asarray(tile)[0, 0] < 2 else double_reversed(x)

    def double_reversed(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        return double(src)

    x = [np.full((4, 8), v, np.float32) for v in (1, 3)]
    r = nkisim.run(kernel, nkisim.per_rank(x), ranks=2)
    assert r.recordings == 2
    for out in r.outputs:
        np.testing.assert_array_equal(out, x[0] + x[1])


def test_what_other_ranks_send_is_not_known_while_a_kernel_is_recorded():
    def kernel(x):
        tile = nl.load(double(x))
        return double(x) if np.asarray(tile)[0, 0] < 2 else x

    with pytest.raises(nkisim.Error, match="depends on other ranks.*while the kernel is recorded"):
        nkisim.run(kernel, np.ones((4, 8), np.float32), ranks=2)


def test_inputs_come_as_lists_functions_or_by_name():
    x = data(2, (4, 8))
    for given in (nkisim.per_rank(x), nkisim.per_rank(lambda rank: x[rank])):
        np.testing.assert_array_equal(nkisim.run(double, given, ranks=2)[1].outputs, x[0] + x[1])
    for rank_inputs in ([{"x": v} for v in x], lambda rank: {"x": x[rank]}):
        r = nkisim.run(double, ranks=2, rank_inputs=rank_inputs)
        np.testing.assert_array_equal(r[1].outputs, x[0] + x[1])
    with pytest.raises(nkisim.Error, match="3 values; one for each of the 2 ranks"):
        nkisim.run(double, nkisim.per_rank([*x, x[0]]), ranks=2)


def both(x):
    group = ncc.ReplicaGroup([[0, 1], [2, 3]])
    return staged(x, x.shape, lambda s, d: ncc.all_reduce([s], [d], group, nl.add))


def test_equal_ranks_are_simulated_once():
    x = data(1, (4, 8))[0]
    # Ranks 0 and 1 of one core share an HBM stack, and stand for those of the other stacks.
    r = nkisim.run(both, x, ranks=4)
    assert (r.timed_as, r.values_of) == ([0, 1, 0, 1], [0, 0, 0, 0])
    pairs = nkisim.run(both, x, ranks=4, lnc=2)
    assert (pairs.timed_as, pairs.values_of) == ([0, 0, 0, 0], [0, 0, 0, 0])
    single = nkisim.run(both, x, ranks=4, fold=False)
    assert (single.timed_as, single.values_of) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert [a.latency_ns for a in r] == [b.latency_ns for b in single]
    for a, b in zip(r.outputs, single.outputs):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, x + x)


def test_an_argument_that_is_written_is_the_ranks_own():
    def kernel(x, state):
        out = double(x)
        nisa.dma_copy(dst=state, src=out)
        return out

    x = data(2, (4, 8))
    own = [np.zeros((4, 8), np.float32) for _ in range(2)]
    nkisim.run(kernel, nkisim.per_rank(x), nkisim.per_rank(own), ranks=2)
    for each in own:
        np.testing.assert_array_equal(each, x[0] + x[1])
    shared = np.zeros((4, 8), np.float32)
    nkisim.run(kernel, nkisim.per_rank(x), shared, ranks=2)
    assert not shared.any()


def test_time_only():
    r = nkisim.run(double, np.zeros((4, 8), np.float32), ranks=2, timing="only")
    assert r.latency_ns > 0 and r[0].outputs is None
    values = nkisim.run(double, np.zeros((4, 8), np.float32), ranks=2)
    assert values.latency_ns == r.latency_ns


def test_what_was_never_written_is_undefined_on_every_rank():
    def kernel(x):
        src = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src[0:2], src=x[0:2])
        return double(src)

    with pytest.raises(nkisim.Error, match="undefined in 16 of 32 elements.*never written"):
        nkisim.run(kernel, np.zeros((4, 8), np.float32), ranks=2)
