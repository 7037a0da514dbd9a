"""Where tiles are placed: two that live at a time share no byte; both ends of a life count."""

import random

import pytest

import nkisim  # noqa: F401
from nkisim.run.allocator import Item, OutOfSpace, place


def overlapping(items, addresses):
    """Pairs that live at a time and share bytes."""
    return [(a.id, b.id) for k, a in enumerate(items) for b in items[:k]
            if a.start <= b.end and b.start <= a.end
            and addresses[a.id] < addresses[b.id] + b.bytes
            and addresses[b.id] < addresses[a.id] + a.bytes]


def test_a_tile_that_begins_where_another_ends_is_elsewhere():
    """One instruction reads the first and writes the second."""
    items = [Item(0, 64, 0, 1), Item(1, 64, 1, 2)]
    assert sorted(place(items, 128).addresses.values()) == [0, 64]
    with pytest.raises(OutOfSpace):
        place(items, 64)
    after = [Item(0, 64, 0, 1), Item(1, 64, 2, 3)]
    assert set(place(after, 64).addresses.values()) == {0}


@pytest.mark.parametrize("bank", [0, 2048])
@pytest.mark.parametrize("seed", range(60))
def test_random_lives_share_no_byte(seed, bank):
    draw = random.Random(seed)
    items = []
    for number in range(draw.randrange(2, 40)):
        start = draw.randrange(20)
        items.append(Item(number, draw.choice([4, 32, 100, 512, 1024, 2048]), start,
                          start + draw.choice([0, 0, 1, 2, 5, 15])))
    for number in range(0 if bank else draw.randrange(3)):
        start = draw.randrange(20)
        items.append(Item(100 + number, 256, start, start + draw.randrange(4),
                          address=4096 * (number + 1)))
    try:
        placed = place(items, 16384, bank)
    except OutOfSpace:  # every 2 KiB to its own bank: only then too little
        most = max(sum(i.bytes for i in items if i.start <= t <= i.end) for t in range(40))
        assert most > 16384 // 4
        return
    assert not overlapping(items, placed.addresses)
    assert placed.peak == max(placed.addresses[i.id] + i.bytes for i in items)
    if bank:
        assert all(placed.addresses[i.id] // bank == (placed.addresses[i.id] + i.bytes - 1) // bank
                   for i in items)
