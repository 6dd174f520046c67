"""PNG files that clnet writes itself, read again by Pillow."""

from __future__ import annotations

import io

import numpy as np
import pytest

from clnet.data.png import png, sheet
from clnet.errors import ShapeError


@pytest.mark.parametrize("shape", [(3, 5), (4, 3, 1), (1, 1, 3), (7, 2, 4)])
def test_image_is_read_again(shape):
    image = pytest.importorskip("PIL.Image", reason='pip install "clnet[data]"')
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with image.open(io.BytesIO(png(pixels))) as found:
        np.testing.assert_array_equal(np.asarray(found).reshape(shape), pixels)


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0, 4, 3)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(ShapeError, match="1, 3 or 4 channels"):
        png(np.zeros(shape, np.uint8))


def test_sheet_places_images_from_least_to_most():
    images = np.arange(3, dtype=np.float32).reshape(3, 1, 1, 1) * np.ones((1, 1, 2, 2), np.float32)
    found = sheet(images)[..., 0]
    expected = np.zeros((5, 5), np.uint8)
    expected[:2, 3:], expected[3:, :2] = 128, 255
    np.testing.assert_array_equal(found, expected)
    assert not sheet(np.full((1, 3, 2, 2), 7.0)).any()  # of equal values
