"""Arrays beside each other in one launch, as GPUs have them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.device import device
from clnet.kernels.moving import join_rows
from clnet.ops.join import Cat
from tests.kernels.launching import cpu_shaped, gpu_shaped, on_device, poisoned, run

RNG = np.random.default_rng(3)


def joined(parts, axis):
    """What NumPy has, our result, and the launches."""
    values = [x.numpy() for x in parts]
    expected = np.concatenate(values, axis)
    y = on_device(np.ones_like(expected))
    launches = join_rows(gpu_shaped(device()), y, parts, axis)
    run(launches)
    return expected, y, launches


@pytest.mark.parametrize(
    ("shape", "axis", "lengths"),
    [
        ((3, 0, 5, 4), 1, (2, 1, 6)),
        ((3, 0, 5, 3), 1, (2, 1, 6)),
        ((0, 7), 0, (5, 3)),
        ((4, 0), 1, (1, 300, 2, 0, 5)),
        ((2, 3, 0), 2, (4, 8)),
        ((0,), 0, tuple(range(1, 41))),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.bool_, np.int64, np.complex64])
def test_parts_lie_beside_each_other(shape, axis, lengths, dtype):
    shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in lengths]
    parts = [on_device((3 * RNG.normal(size=s)).astype(dtype)) for s in shapes]
    expected, y, launches = joined(parts, axis)
    np.testing.assert_array_equal(y.numpy(), expected)
    assert len(launches) == (2 if len(lengths) > 31 else 1)


@pytest.mark.parametrize(
    ("dtype", "inner", "begin", "width"),
    [(np.float32, 4, 0, 4), (np.float32, 4, 2, 2), (np.float32, 3, 0, 1), (np.float16, 8, 0, 8),
     (np.complex64, 4, 0, 2), (np.complex128, 4, 0, 1)],
)  # fmt: skip
def test_vectors_are_as_long_as_all_parts_allow(dtype, inner, begin, width):
    long = on_device(RNG.normal(size=begin + 3 * 2 * inner).astype(dtype))
    parts = [
        long.view((3, 2, inner), (2 * inner, inner, 1), begin),
        on_device(RNG.normal(size=(3, 1, inner)).astype(dtype)),
    ]
    expected, y, launches = joined(parts, 1)
    assert launches[0].kernel.params["width"] == width
    np.testing.assert_array_equal(y.numpy(), expected)


def test_rows_may_lie_apart_or_be_one():
    wide = on_device(RNG.normal(size=(4, 6, 5)).astype(np.float32))
    half = wide.view((4, 3, 5), wide.strides, 15)
    same = wide.view((4, 2, 5), (0, 5, 1))
    expected, y, launches = joined([half, same, half], 1)
    assert len(launches) == 1
    np.testing.assert_array_equal(y.numpy(), expected)


def test_what_does_not_fit_is_left_to_copies():
    x, y = (on_device(np.ones(shape, np.float32)) for shape in ((4, 6), (4, 12)))
    turned, back = x.view((4, 6), (1, 4)), x.view((4, 6), (-6, 1), 18)
    for parts in ([turned, x], [back, x], [x]):
        assert not join_rows(gpu_shaped(device()), y, parts, 1)
    assert not join_rows(cpu_shaped(device()), y, [x, x], 1)


def test_a_concatenation_on_a_gpu_is_one_launch():
    tensors = [clnet.randn(2, n, 3, 4) for n in (3, 1, 5)]
    arrays = [t.array for t in tensors]
    y = poisoned((2, 9, 3, 4))
    launches = Cat(1).lower(gpu_shaped(device()), [y], arrays)
    assert [launch.kernel.name for launch in launches] == ["join_rows"]
    run(launches)
    np.testing.assert_array_equal(y.numpy(), clnet.cat(tensors, 1).numpy())
