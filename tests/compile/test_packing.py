"""Packing: those alive together never overlap, places are aligned, arenas are small."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clnet.compile import packing
from clnet.compile.packing import Tenant, busiest, pack

tenants = st.lists(
    st.builds(
        lambda nbytes, first, length: Tenant(nbytes, first, first + length),
        st.integers(0, 5000),
        st.integers(0, 20),
        st.integers(0, 12),
    ),
    max_size=30,
)


@given(tenants, st.sampled_from([1, 64, 256]), st.sampled_from([6000, 20_000, 10**9]))
def test_those_alive_together_do_not_overlap(found, alignment, largest):
    packing = pack(found, alignment=alignment, largest=largest)
    assert len(packing.places) == len(found)
    for tenant, place in zip(found, packing.places, strict=True):
        assert place.offset % alignment == 0
        assert place.offset + tenant.nbytes <= packing.arenas[place.arena]
    for (a, p), (b, q) in combinations(zip(found, packing.places, strict=True), 2):
        if p.arena == q.arena and a.first <= b.last and b.first <= a.last:
            assert p.offset + a.nbytes <= q.offset or q.offset + b.nbytes <= p.offset
    assert all(nbytes <= largest for nbytes in packing.arenas)


@given(tenants)
def test_no_packing_needs_less_than_the_busiest_step(found):
    most, step = busiest(found, alignment=64)
    assert sum(pack(found, alignment=64, largest=10**9).arenas) >= most
    alive = [t for t in found if t.first <= step <= t.last]
    assert sum(-(-max(t.nbytes, 1) // 64) * 64 for t in alive) == most


def test_a_chain_needs_two_places():
    chain = [Tenant(1000, i, i + 1) for i in range(50)]
    assert pack(chain, alignment=8, largest=10**9).arenas == (2000,)


def test_a_gap_is_filled_by_the_best_fit():
    found = [
        Tenant(1000, 0, 9),
        Tenant(600, 0, 3),
        Tenant(900, 0, 9),
        Tenant(300, 0, 3),
        Tenant(800, 0, 9),
        Tenant(250, 5, 9),
        Tenant(500, 5, 9),
    ]
    assert sum(pack(found, alignment=1, largest=10**9).arenas) == 3600


def test_training_is_packed_tightly():
    """Activations that die in the reverse order of their making, gradients beside them."""
    depth = 40
    sizes = [1000 + 137 * (i * 7 % 13) for i in range(depth)]
    found = [Tenant(size, i, 2 * depth - i) for i, size in enumerate(sizes)]
    found += [Tenant(size, 2 * depth - i, 2 * depth - i + 1) for i, size in enumerate(sizes)]
    total = sum(pack(found, alignment=1, largest=10**9).arenas)
    assert total <= 1.03 * busiest(found)[0]


def test_no_arena_is_larger_than_a_buffer_may_be():
    found = [Tenant(600, 0, 5)] * 5
    assert pack(found, alignment=1, largest=1300).arenas == (1200, 1200, 600)


def test_what_fits_nowhere_gets_an_arena_of_its_own():
    assert pack([Tenant(5000, 0, 1)], alignment=1, largest=1000).arenas == (5000,)


def test_nothing_needs_nothing():
    assert pack([], alignment=256, largest=100) == ((), (), 0)
    assert busiest([]) == (0, 0)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257])
def test_sizes_are_rounded_up(nbytes):
    found = [Tenant(nbytes, 0, 0), Tenant(1, 0, 0)]
    assert sum(pack(found, alignment=256, largest=10**9).arenas) == (768 if nbytes > 256 else 512)


@given(tenants, st.integers(0, 10), st.sampled_from([6000, 10**9]))
def test_others_lie_in_residences_before_and_after_their_residents(found, count, largest):
    count = min(count, len(found))
    packing = pack(found, alignment=64, largest=largest, residents=range(count))
    for (a, p), (b, q) in combinations(zip(found, packing.places, strict=True), 2):
        if p.arena == q.arena and a.first <= b.last and b.first <= a.last:
            assert p.offset + a.nbytes <= q.offset or q.offset + b.nbytes <= p.offset
    homes = [p.arena for p in packing.places[:count]]
    assert set(homes) == set(range(packing.num_residences))
    alone = pack(found[:count], alignment=64, largest=largest, residents=range(count))
    assert packing.arenas[: packing.num_residences] == alone.arenas
    assert packing.places[:count] == alone.places


def test_memory_of_a_resident_is_used_before_it_comes():
    found = [Tenant(100, 5, 9), Tenant(100, 5, 9), Tenant(200, 0, 4), Tenant(50, 3, 7)]
    packing = pack(found, alignment=1, largest=10**9, residents=[0, 1])
    assert packing.arenas == (200, 50)
    assert [p.arena for p in packing.places] == [0, 0, 0, 1]


def test_those_without_room_come_first_in_the_next_order():
    """None of the orders alone packs these without waste."""
    found = [
        Tenant(700, 5, 6),
        Tenant(100, 1, 4),
        Tenant(100, 0, 3),
        Tenant(300, 4, 6),
        Tenant(700, 3, 3),
    ]
    everyone = range(len(found))
    for order in packing._ORDERS:
        turns = sorted(everyone, key=lambda i, order=order: order(found[i]))
        assert sum(packing._packed(found, turns, 1, 10**9, ()).arenas) >= 1100
    assert pack(found, alignment=1, largest=10**9).arenas == (busiest(found)[0],) == (1000,)
