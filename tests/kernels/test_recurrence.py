"""Steps of recurrent layers as GPUs take them: all in one launch, or each, beside products."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.kernels.recurrent import Step, Steps
from clnet.kernels.recurrent.recurrence_ring import Ring
from clnet.kernels.recurrent.recurrence_step import Share
from clnet.ops.recurrence import Recurrence, RecurrenceBackward
from clnet.ops.rnn import Cell
from clnet.values.dtypes import float32
from tests.kernels.launching import cpu_shaped, gpu_shaped, normal, offset, on_device, poisoned, run

STEPS, N, SIZE = 3, 5, 8


def lowered(function, target, inputs):
    outputs = tuple(poisoned(a.shape) for a in function.infer(*inputs))
    launches = function.lower(target, outputs, inputs)
    run(launches)
    return len(launches), [a.numpy() for a in outputs]


def drawn(cell, lead, *, bias, n=N, size=SIZE, place=offset):
    rows = cell.gates * size
    shapes = [(STEPS, *lead, n, rows), *[(*lead, n, size)] * cell.results, (*lead, rows, size)]
    shapes += [(*lead, rows)] * bias
    values = [normal(*shape, seed=k) for k, shape in enumerate(shapes)]
    values[1 + cell.results] /= (size / SIZE) ** 0.5
    return tuple(map(place, values))


def compared(cell, backwards, arrived, inputs, place=offset):
    """Launches of a GPU's form and of products, forward and back; their values agree."""
    many, one = cpu_shaped(device()), gpu_shaped(device())
    forward = Recurrence(cell, backwards)
    expected, found = lowered(forward, many, inputs), lowered(forward, one, inputs)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    launches = [(found[0], expected[0])]

    grads = [normal(*expected[1][k].shape, seed=9 + k) for k, given in enumerate(arrived) if given]
    saved = (*inputs[: 2 + cell.results], *map(place, expected[1]), *map(place, grads))
    backward = RecurrenceBackward(cell, backwards, arrived)
    expected, found = lowered(backward, many, saved), lowered(backward, one, saved)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert np.abs(b).max() > 0.1
    return *launches, (found[0], expected[0])


LAYERS = pytest.mark.parametrize(
    ("cell", "lead", "backwards", "bias", "arrived"),
    [
        (Cell.LSTM, (), False, True, (True, False)),
        (Cell.LSTM, (2,), True, True, (True, False)),
        (Cell.GRU, (2,), False, False, (True,)),
        (Cell.GRU, (), True, False, (True,)),
    ],
)


@pytest.fixture
def each_step(monkeypatch):
    """A launch for each step, in shares of which the compiler takes a third of larger ones' time.

    A share's rows, its columns and its terms' tiles are fewer than those of the larger layers.
    """
    monkeypatch.setattr(import_module(Steps.__module__), "_NEAR_BYTES", 0)
    shares = import_module(Share.__module__)
    for name, value in {"_ROWS": (8,), "_COLUMNS": (16,), "_CHUNKS": (32,)}.items():
        monkeypatch.setattr(shares, name, value)


@pytest.fixture
def in_rings(each_step, monkeypatch):
    """Tiles come into rings, by copies that every device has; in shares as small."""
    rings = import_module(Ring.__module__)
    small = {"_ITEMS": 64, "_DOWN": 4, "_DEEP": 2, "_TILES": ((16, 16),), "_CHUNKS": (8,)}
    for name, value in {**small, "_COPY": "direct", "_BESIDE": -1e9}.items():
        monkeypatch.setattr(rings, name, value)
    monkeypatch.setattr(import_module(Share.__module__), "_RING_PRODUCTS", (0, 1e9))


@LAYERS
def test_one_launch_is_all_steps(cell, lead, backwards, bias, arrived):
    (forth, many), (back, many_back) = compared(
        cell, backwards, arrived, drawn(cell, lead, bias=bias)
    )
    assert forth <= 2 < many
    assert back == 1 < many_back


@pytest.mark.parametrize(
    ("cell", "lead", "arrived", "little"),
    [(Cell.LSTM, (2,), (True, False), 3072), (Cell.GRU, (), (True,), 2048)],
)
def test_weights_in_registers_give_the_same_bits(monkeypatch, cell, lead, arrived, little):
    one, module, ways = gpu_shaped(device()), import_module(Steps.__module__), []
    inputs = drawn(cell, lead, bias=bool(lead), size=16, n=3, place=on_device)
    # None of an item's eight weights, half of them, all; half, and no room for the others.
    ways_to = ((0, 0, 49152), (4, 52, 49152), (8, 61, 49152), (4, 52, little))
    for held, registers, room in ways_to:
        sizes = {"local_memory_bytes": room, "large_local_memory_bytes": room if held else 0}
        sizes |= {"max_group_size": 64, "compute_units": 2}
        target = replace(one, traits=replace(one.traits, **sizes))
        monkeypatch.setattr(module, "_MOST_REGISTERS", registers)
        steps = Steps.of(target, inputs[0], inputs[1 + cell.results], cell.results, [])
        assert steps is not None
        assert (steps.held, steps.near) == (held, room != little)
        forth = lowered(Recurrence(cell, backwards=True), target, inputs)[1]
        grads = [normal(*forth[k].shape, seed=9 + k) for k, given in enumerate(arrived) if given]
        saved = (*inputs[: 2 + cell.results], *map(offset, forth), *map(offset, grads))
        backward = RecurrenceBackward(cell, backwards=True, arrived=arrived)
        back = lowered(backward, target, saved)[1]
        ways.append([*forth, *back])
        odd = offset(normal(*inputs[1 + cell.results].shape))  # whose rows are not read in twos
        taken = Steps.of(target, inputs[0], odd, cell.results, [], back=True)
        assert (taken is None) == (room == little)
    for found in ways[1:]:
        for a, b in zip(found, ways[0], strict=True):
            np.testing.assert_array_equal(a, b)


@LAYERS
@pytest.mark.parametrize(("n", "size", "place"), [(N, SIZE, offset), (19, 76, on_device)])
@pytest.mark.usefixtures("each_step")
def test_one_launch_is_a_step(cell, lead, backwards, bias, arrived, n, size, place):
    inputs = drawn(cell, lead, bias=bias, n=n, size=size, place=place)
    (forth, many), (back, many_back) = compared(cell, backwards, arrived, inputs, place)
    assert forth == 1 + STEPS < many  # the weights are turned over first
    assert back <= 2 + (STEPS - 1) + 1 < many_back


@pytest.mark.parametrize(
    ("rows", "columns"), [(8, 32), (16, 16), (16, 32), (32, 8), (32, 32), (64, 16)]
)
def test_items_in_blocks_have_a_sum_each(each_step, monkeypatch, rows, columns):
    """As NVIDIA's GPUs take them, of groups with and without four rows of items."""
    shares, of = import_module(Share.__module__), Share.of
    monkeypatch.setattr(shares, "_ROWS", (rows,))
    monkeypatch.setattr(shares, "_COLUMNS", (columns,))
    monkeypatch.setattr(shares, "_CHUNKS", (8,))
    monkeypatch.setattr(Share, "of", lambda *a, **given: of(*a, **given)._replace(patches=True))
    inputs = drawn(Cell.LSTM, (), bias=True, n=rows + 3, size=36, place=on_device)
    (forth, many), _ = compared(Cell.LSTM, False, (True, False), inputs, on_device)
    assert forth == 1 + STEPS < many


@LAYERS
@pytest.mark.parametrize(("n", "size"), [(N, SIZE), (19, 76)])
@pytest.mark.usefixtures("in_rings")
def test_tiles_of_a_step_come_into_a_ring(cell, lead, backwards, bias, arrived, n, size):
    # 76 terms are ten stages, of which three have room; 19 rows and 76 columns end inside tiles.
    inputs = drawn(cell, lead, bias=bias, n=n, size=size, place=on_device)
    target = gpu_shaped(device())
    step = Step.of(target, inputs[0], inputs[1 + cell.results], cell.results, inputs[1:])
    assert step is not None
    assert isinstance(step.forward, Ring)
    (forth, many), _ = compared(cell, backwards, arrived, inputs, on_device)
    assert forth == 1 + STEPS < many
    odd = [offset(inputs[0].numpy()), *inputs[1:]]  # copies of four elements cannot begin there
    step = Step.of(target, odd[0], odd[1 + cell.results], cell.results, odd[1:])
    assert step is not None
    assert isinstance(step.forward, Share)


def test_large_products_come_into_rings_where_copies_are_asynchronous():
    traits = replace(gpu_shaped(device()).traits, compute_units=132, max_group_size=1024)
    room = {"local_memory_bytes": 49152, "large_local_memory_bytes": 232_000}
    traits = replace(traits, **room, asynchronous_copies=False)
    target = replace(device().target, traits=replace(traits, asynchronous_copies=True))

    def forward(n, size, gates, layers=1, target=target):
        x = Array.abstract((2, layers, n, gates * size), float32, device())
        weight = Array.abstract((layers, gates * size, size), float32, device())
        step = Step.of(target, x, weight, 2, [])
        return step and step.forward

    ring = forward(128, 1024, 4)
    assert isinstance(ring, Ring)
    assert (ring.rows, ring.columns) == (64, 16)  # 128 groups of 132 units
    wide = forward(256, 1024, 4, layers=2)
    assert isinstance(wide, Ring)
    assert (wide.rows, wide.columns) == (128, 32)  # one round, not two
    for made in (ring, wide):
        assert 4 * (made.room + made.read) <= 232_000
    assert isinstance(forward(128, 512, 4), Share)  # a smaller product
    assert forward(16, 4096, 4) is None  # most of a ring's rows would be empty
    assert forward(4096, 1024, 4) is None  # products of large tiles
    few = replace(target, traits=traits)
    assert isinstance(forward(128, 1024, 4, target=few), Share)
    assert forward(256, 1024, 4, target=few) is None


@pytest.mark.usefixtures("each_step")
def test_steps_of_one_launch_give_the_same_bits_as_before():
    # The kernel that a layer above compiles, too.
    inputs = drawn(Cell.GRU, (2,), bias=False, n=19, size=76, place=on_device)
    target = gpu_shaped(device())
    first, again = (lowered(Recurrence(Cell.GRU, False), target, inputs)[1] for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_which_shares_of_a_product_groups_make():
    traits = replace(gpu_shaped(device()).traits, compute_units=132, max_group_size=1024)
    traits = replace(traits, local_memory_bytes=49152)
    for layers, n, size, gates in ((1, 128, 512, 3), (2, 16, 1024, 4), (1, 3, 1024, 3)):
        for terms, runs in ((size, gates), (gates * size, 1)):
            share = Share.of(traits, layers, n, size, terms=terms, runs=runs)
            assert share is not None
            groups = layers * -(-n // share.rows) * -(-size // share.columns)
            assert 64 <= groups <= 132  # no unit has two, and half of them have one
            assert 128 <= share.group <= 256
            assert share.room * 4 <= 49152
    little = replace(traits, local_memory_bytes=4096)
    assert Share.of(little, 1, 128, 512, terms=512, runs=3) is None


def test_tiles_on_their_way_take_registers_that_nothing_else_wants():
    traits = replace(gpu_shaped(device()).traits, compute_units=60, max_group_size=256)
    for kept, large, ahead in ((0, 0, 2), (9, 0, 2), (12, 0, 1), (12, 2**16, 2)):
        given = replace(traits, local_memory_bytes=2**16, large_local_memory_bytes=large)
        share = Share.of(given, 1, 64, 1024, terms=4096, runs=1, kept=kept)
        assert share is not None
        assert share.ahead == ahead


def test_where_all_steps_go_together():
    target = gpu_shaped(device())
    x, *states, weight = drawn(Cell.LSTM, (), bias=False)
    steps = Steps.of(target, x, weight, 2, states)
    assert steps is not None
    assert steps.rows * -(-N // steps.rows) >= N
    assert Steps.of(cpu_shaped(device()), x, weight, 2, states) is None
    odd = offset(normal(4 * 6, 6))
    assert Steps.of(target, offset(normal(STEPS, N, 4 * 6)), odd, 2, []) is None
    large = offset(normal(4 * 264, 264))  # which no group would find in its caches
    assert Steps.of(target, offset(normal(STEPS, N, 4 * 264)), large, 2, []) is None
    turned = weight.view(weight.shape, (1, weight.shape[0]))
    assert Steps.of(target, x, turned, 2, states) is None
    assert Step.of(target, x, turned, 2, states) is None
    assert Step.of(target, offset(normal(STEPS, N, 4 * 264)), large, 2, []) is not None
    assert Step.of(target, offset(normal(STEPS, N, 4 * 6)), odd, 2, []) is None
    assert Step.of(cpu_shaped(device()), x, weight, 2, states) is None
    known = Step.of(target, *map(on_device, (x.numpy(), weight.numpy())), 2, [])
    assert known is not None
    assert known.aligned
    known = Step.of(target, *map(on_device, (x.numpy(), weight.numpy())), 2, [x])
    assert known is not None
    assert not known.aligned  # a result that lies elsewhere, which the next step reads
    fewer = replace(target, traits=replace(target.traits, compute_units=1))
    many = Array.abstract((STEPS, 2048, 4 * 264), float32, device())  # large tiles are better
    assert Step.of(fewer, many, large, 2, []) is None
