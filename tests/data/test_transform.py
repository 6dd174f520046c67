"""Transforms against direct computations."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.data import (
    Compose,
    Draw,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    ToFloat,
    channel_stats,
)
from clnet.errors import ArgumentError, ShapeError

N = 64
DRAW = Draw(1, 0, np.arange(N))


def images(dtype=np.uint8) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 256, (N, 3, 6, 7)).astype(dtype)


def test_to_float_maps_bytes_to_the_unit_interval():
    y = ToFloat()(np.array([[0, 51, 255]], np.uint8), DRAW)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.array([[0, 0.2, 1]], np.float32))
    np.testing.assert_array_equal(ToFloat(16)(np.array([[8]], np.uint8), DRAW), [[0.5]])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
def test_channel_stats_in_chunks_equal_the_direct_ones(dtype):
    x = images(dtype)
    mean, std = channel_stats(x, chunk=7)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(axis=(0, 2, 3)), rtol=1e-13)
    np.testing.assert_allclose(std, x.astype(np.float64).std(axis=(0, 2, 3)), rtol=1e-13)


def test_channel_stats_of_nothing_are_refused():
    with pytest.raises(ShapeError):
        channel_stats(np.zeros((0, 3, 2, 2)))


def test_normalize_of_images_gives_mean_0_and_std_1():
    x = images()
    y = Normalize.of(x)(x, DRAW)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(axis=(0, 2, 3)), 1, atol=1e-5)


def test_normalize_with_given_figures():
    x = np.array([[[1.0], [10.0]]])
    np.testing.assert_array_equal(Normalize([0, 4], [2, 3])(x, DRAW), [[[0.5], [2.0]]])


@pytest.mark.parametrize(("mean", "std"), [([0, 0], [1]), ([0], [0]), ([0], [-1]), ([0], [np.nan])])
def test_normalize_refuses_figures_that_make_no_sense(mean, std):
    with pytest.raises(ArgumentError, match="Normalize"):
        Normalize(mean, std)


def test_normalize_refuses_other_channels():
    with pytest.raises(ShapeError, match=r"x=\(64, 3, 6, 7\), channels=1"):
        Normalize([0], [1])(images(), DRAW)


def test_crop_is_a_window_of_the_padded_image():
    x, p = images(), 2
    y = RandomCrop(p)(x, DRAW)
    assert y.shape == x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    places = set()
    for before, after in zip(padded, y, strict=True):
        matches = [
            (top, left)
            for top in range(2 * p + 1)
            for left in range(2 * p + 1)
            if np.array_equal(before[:, top : top + 6, left : left + 7], after)
        ]
        assert len(matches) == 1  # no pixel is 0, so each window is another
        places.add(matches[0])
    assert len(places) > 4 * p  # more than the diagonal: the two are drawn apart
    assert {top for top, _ in places} == {left for _, left in places} == set(range(2 * p + 1))


def test_flip_mirrors_about_half_of_the_images():
    x = images()
    y = RandomHorizontalFlip()(x, DRAW)
    flipped = [np.array_equal(a, b[..., ::-1]) for a, b in zip(y, x, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(y, x, strict=True)]
    assert [not f for f in flipped] == same
    assert 16 < sum(flipped) < 48


@pytest.mark.parametrize("transform", [RandomCrop(2), RandomHorizontalFlip(), RandomErasing()])
def test_random_transforms_depend_on_seed_epoch_and_example_alone(transform):
    x = images()
    y = transform(x, DRAW)
    half = np.arange(N)[::-2]
    np.testing.assert_array_equal(transform(x[half], Draw(1, 0, half)), y[half])
    for other in (Draw(2, 0, np.arange(N)), Draw(1, 1, np.arange(N))):
        assert not np.array_equal(transform(x, other), y)


def test_transforms_leave_their_input():
    for transform in (ToFloat(), Normalize.of(images()), RandomCrop(1), RandomErasing()):
        x = images()
        transform(x, DRAW)
        np.testing.assert_array_equal(x, images())


def test_compose_applies_in_order_and_draws_apart():
    x = images()
    y = Compose([RandomHorizontalFlip(), RandomHorizontalFlip(), ToFloat()])(x, DRAW)
    assert y.dtype == np.float32
    assert not np.array_equal(y, ToFloat()(x, DRAW))  # the same draw twice would undo itself


@pytest.mark.parametrize("transform", [RandomCrop(2), RandomHorizontalFlip(), RandomErasing()])
def test_flat_examples_are_refused(transform):
    with pytest.raises(ShapeError, match=r"needs images \(n, c, h, w\)"):
        transform(np.zeros((4, 10)), DRAW)


def test_erasing_takes_a_rectangle_of_the_size_asked_for():
    x = np.ones((400, 2, 20, 30), np.float32)
    draw = Draw(1, 0, np.arange(400))
    y = RandomErasing(0.75, scale=(0.1, 0.4), ratio=(0.5, 2.0), value=7)(x, draw)
    areas, ratios, corners = [], [], set()
    for image in y:
        assert np.array_equal(image[0], image[1])
        rows, columns = np.nonzero(image[0] == 7)
        if len(rows) == 0:
            continue
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert len(rows) == height * width  # a whole rectangle
        areas.append(len(rows) / 600)
        ratios.append(height / width)
        corners.add((rows[0], columns[0]))
    assert 260 < len(areas) < 340  # of 400, three quarters
    assert 0.08 < min(areas) < 0.13 < 0.36 < max(areas) < 0.43
    assert 0.4 < min(ratios) < 0.6 < 1.7 < max(ratios) < 2.4
    assert len(corners) > 100
    assert {0} < {row for row, _ in corners}


def test_erasing_never_and_all():
    x = np.ones((8, 1, 4, 5))
    assert (RandomErasing(0.0)(x, Draw(0, 0, np.arange(8))) == 1).all()
    assert (RandomErasing(1.0, (1, 1), (0.8, 0.8))(x, Draw(0, 0, np.arange(8))) == 0).all()


@pytest.mark.parametrize(
    "options", [{"p": 1.5}, {"scale": (0.5, 0.1)}, {"scale": (0, 2)}, {"ratio": (0, 1)}]
)
def test_erasing_with_bounds_that_make_no_sense(options):
    with pytest.raises(ArgumentError, match="RandomErasing"):
        RandomErasing(**options)


def test_crop_without_padding_is_refused():
    with pytest.raises(ArgumentError, match="padding=0"):
        RandomCrop(0)
