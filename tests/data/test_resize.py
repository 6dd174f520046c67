"""Interpolated images, against SciPy's and PyTorch's, and the ECE408 course's data."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.data import ECE408, Draw, FashionMNIST, Resize, resize
from clnet.errors import ArgumentError, DataError, ShapeError


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 2, 7, 5)).astype(np.uint8)


@pytest.mark.parametrize("size", [(12, 9), (7, 5), (8, 20)], ids=str)
@pytest.mark.parametrize(("beyond", "theirs"), [("edge", "nearest"), ("zero", "grid-constant")])
def test_interpolation_agrees_with_scipy(size, beyond, theirs):
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is the oracle")
    ours = resize(images(), size, beyond=beyond)
    factors = (size[0] / 7, size[1] / 5)
    for own, image in zip(ours.reshape(-1, *size), images().reshape(-1, 7, 5), strict=True):
        expected = ndimage.zoom(
            image.astype(float), factors, order=1, mode=theirs, grid_mode=True, prefilter=False
        )
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-9)


def test_edges_fade_where_zeros_lie_around():
    y = resize(np.full((1, 2, 2), 8.0), (4, 4), beyond="zero")
    np.testing.assert_array_equal(y[0, 0], [4.5, 6, 6, 4.5])
    np.testing.assert_array_equal(resize(np.full((1, 2, 2), 8.0), (4, 4)), np.full((1, 4, 4), 8))


def test_transform_gives_float32():
    y = Resize((14, 10))(images(), Draw(0, 0, np.arange(3)))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, resize(images(), (14, 10)).astype(np.float32))


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((np.zeros(4), (2, 2)), {}, ShapeError),
        ((np.zeros((0, 4, 4)), (2, 2)), {}, ShapeError),
        ((np.zeros((4, 4)), (0, 2)), {}, ArgumentError),
        ((np.zeros((4, 4)), (2, 2)), {"beyond": "wrap"}, ArgumentError),
    ],
)
def test_unfit_arguments_are_refused(arguments, options, error):
    with pytest.raises(error):
        resize(*arguments, **options)


def test_course_data_are_fashion_mnist_at_48():
    try:
        original = FashionMNIST(train=False)
    except DataError as error:
        pytest.skip(f"Fashion-MNIST is not here: {error}")
    data = ECE408(train=False)
    larger, labels = data.arrays
    assert larger.shape == (10000, 1, 48, 48)
    assert larger.dtype == np.uint8
    np.testing.assert_array_equal(labels, original.arrays[1])
    # Weights are whole numbers of 24ths: in whole numbers, nothing is rounded before it is cut off.
    weights = np.rint(24 * resize(np.eye(28), (48, 28), beyond="zero")).astype(np.int64)
    few = original.arrays[0][:200, 0].astype(np.int64)
    np.testing.assert_array_equal(larger[:200, 0], weights @ few @ weights.T // 576)
