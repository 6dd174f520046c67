"""Shape algebra: what it computes on strides is what NumPy does with views."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import BroadcastableShapes, mutually_broadcastable_shapes

from clnet.errors import BoundsError, ShapeError
from clnet.values.shapes import (
    broadcast_shapes,
    broadcast_strides,
    collapse,
    contiguous_strides,
    is_contiguous,
    normalize_dim,
    normalize_dims,
    pair,
    reshape_strides,
    resolve_reshape,
    window_size,
)

SIZES = st.lists(st.integers(0, 5), max_size=5).map(tuple)


def steps(array: np.ndarray) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def look(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The offsets that shape and strides visit, in row-major order of the shape."""
    offsets = np.zeros(shape, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        offsets += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return offsets


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """Views of an array: sliced with steps, axes permuted, some repeated with a stride of 0."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    base = np.arange(prod(shape) * 2 ** len(shape)).reshape([2 * n for n in shape])
    slices = [
        slice(draw(st.integers(0, 1)), None, draw(st.integers(1, 2)))
        if draw(st.booleans())
        else slice(None)
        for _ in shape
    ]
    view = base[tuple(slices)].transpose(draw(st.permutations(range(len(shape)))))
    return (
        np.broadcast_to(view, (draw(st.integers(1, 3)), *view.shape))
        if draw(st.booleans())
        else view
    )


@given(SIZES)
def test_contiguous_strides_equal_numpys(shape):
    assert is_contiguous(shape, contiguous_strides(shape))
    if 0 not in shape:
        assert contiguous_strides(shape) == steps(np.empty(shape))


@given(views())
def test_contiguous_means_what_numpy_says(view):
    assert is_contiguous(view.shape, steps(view)) == view.flags.c_contiguous


@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0))
def test_broadcast_equals_numpys(found: BroadcastableShapes):
    assert broadcast_shapes("add", *found.input_shapes) == found.result_shape
    for shape in found.input_shapes:
        array = np.zeros(shape)
        strides = broadcast_strides(shape, contiguous_strides(shape), found.result_shape)
        expected = np.broadcast_to(look(shape, contiguous_strides(shape)), found.result_shape)
        assert array.size == 0 or np.array_equal(look(found.result_shape, strides), expected)


@given(SIZES, SIZES)
def test_broadcast_refuses_what_numpy_refuses(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match=r"^add: sizes differ at axis -\d and none is 1; got "):
            broadcast_shapes("add", a, b)
    else:
        assert broadcast_shapes("add", a, b) == expected


@given(st.data())
def test_collapse_visits_the_same_elements_in_the_same_order(data):
    first = data.draw(views())
    order = tuple(data.draw(st.permutations(range(first.ndim))))
    dense = (
        np.arange(first.size).reshape([first.shape[i] for i in np.argsort(order)]).transpose(order)
    )
    operands = [steps(first), steps(dense), (0,) * first.ndim]
    sizes, collapsed = collapse(first.shape, operands)
    assert prod(sizes) == first.size
    for before, after in zip(operands, collapsed, strict=True):
        assert np.array_equal(look(first.shape, before).ravel(), look(sizes, after).ravel())


@given(SIZES.filter(lambda s: 0 not in s))
def test_collapse_of_dense_operands_has_one_axis(shape):
    strides = contiguous_strides(shape)
    sizes, _ = collapse(shape, [strides, strides])
    assert sizes == (prod(shape),)


@given(views(), st.data())
def test_reshape_strides_visit_the_same_elements_or_none(view, data):
    rest, target = view.size, []
    while rest > 1:
        target.append(data.draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= target[-1]
    target = tuple(data.draw(st.permutations(target + [1] * data.draw(st.integers(0, 2)))))
    strides = reshape_strides(view.shape, steps(view), target)
    shared = np.shares_memory(view, view.reshape(target))
    assert (strides is not None) == shared
    if strides is not None:
        assert np.array_equal(look(target, strides).ravel(), look(view.shape, steps(view)).ravel())


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((2, 3), (6,), (6,)),
        ((2, 3), (-1,), (6,)),
        ((2, 3), (3, -1), (3, 2)),
        ((), (1, 1), (1, 1)),
        ((0, 3), (5, 0), (5, 0)),
        ((0, 3), (-1, 3), (0, 3)),
    ],
)
def test_resolve_reshape_fills_in_a_size(shape, target, expected):
    assert resolve_reshape("reshape", shape, target) == expected


@pytest.mark.parametrize(
    ("shape", "target"),
    [((2, 3), (4,)), ((2, 3), (-1, 4)), ((2, 3), (-1, -1)), ((2, 3), (-2, 3)), ((0,), (-1, 0))],
)
def test_resolve_reshape_refuses_another_count(shape, target):
    with pytest.raises(ShapeError, match=r"^reshape: .*; got shape=.*, target="):
        resolve_reshape("reshape", shape, target)


def test_dims_count_from_either_end():
    assert normalize_dim("sum", -1, 3) == 2
    assert normalize_dim("sum", -1, 0) == 0
    assert normalize_dims("sum", (-1, 0), 3) == (0, 2)
    assert normalize_dims("sum", None, 3) == (0, 1, 2)
    assert normalize_dims("sum", 0, 0) == ()


def test_dims_outside_are_refused():
    with pytest.raises(BoundsError, match=r"^sum: dim lies in \[-2, 2\); got dim=2, ndim=2$"):
        normalize_dim("sum", 2, 2)
    with pytest.raises(ShapeError, match=r"^sum: a dim is named once; got dim=\(0, -2\)$"):
        normalize_dims("sum", (0, -2), 2)


@given(
    st.integers(1, 20), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3)
)
def test_window_size_counts_the_windows(size, kernel, stride, padding, dilation):
    span = dilation * (kernel - 1) + 1
    starts = range(-padding, size + padding - span + 1, stride)
    assert max(window_size(size, kernel, stride, padding, dilation), 0) == len(starts)


def test_pair_takes_an_int_or_two():
    assert pair(3, "conv2d", "stride") == (3, 3)
    assert pair([1, 2], "conv2d", "stride") == (1, 2)
    with pytest.raises(
        ShapeError, match=r"^conv2d: stride is an int or a pair of ints; got value=\(1, 2, 3\)$"
    ):
        pair((1, 2, 3), "conv2d", "stride")


def test_reshape_of_nothing_needs_no_copy():
    assert reshape_strides((0, 2, 300), (600, 1, 2), (0, 300)) == (300, 1)
