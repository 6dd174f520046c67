"""Arrays as PNG files, for pages that show them; needs no package."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

_KINDS = {1: 0, 3: 2, 4: 6}  # PNG's colour types by channels: grey, RGB, RGBA
_EDGE = 1  # pixels between the images of a sheet


def png(image: NDArray[np.uint8]) -> bytes:
    """An image as a PNG file (W3C's Portable Network Graphics, third edition).

    Args:
        image: ``(h, w)`` or ``(h, w, channels)`` uint8, with 1, 3 or 4 channels.

    Returns:
        The bytes of the file.

    Raises:
        ShapeError: if it has other axes or channels, or no pixel.
    """
    pixels = image[..., None] if image.ndim == 2 else image
    if pixels.ndim != 3 or pixels.shape[2] not in _KINDS or not pixels.size:
        law = "an image is (h, w) or (h, w, channels) with 1, 3 or 4 channels"
        raise ShapeError("png", law, image=image.shape)
    h, w, channels = pixels.shape
    # Each row begins with the number of its filter: 0, none.
    rows = np.pad(pixels.reshape(h, w * channels), ((0, 0), (1, 0)))
    head = struct.pack(">IIBBBBB", w, h, 8, _KINDS[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def sheet(images: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Images beside and below each other, from black for the least value to white.

    Args:
        images: ``(n, channels, h, w)`` with 1 or 3 channels, n at least 1.

    Returns:
        ``(rows, columns, channels)`` uint8; a dark line between the images.
    """
    n, channels, h, w = images.shape
    columns = int(np.ceil(np.sqrt(n)))
    rows = -(-n // columns)
    values = np.nan_to_num(images.astype(np.float64))
    least, most = values.min(), values.max()
    scaled = (values - least) * (255 / (most - least) if most > least else 0.0)
    placed = np.zeros((rows * columns, channels, h + _EDGE, w + _EDGE), np.uint8)
    placed[:n, :, :h, :w] = np.rint(scaled)
    whole = placed.reshape(rows, columns, channels, h + _EDGE, w + _EDGE)
    whole = whole.transpose(0, 3, 1, 4, 2).reshape(rows * (h + _EDGE), -1, channels)
    return np.ascontiguousarray(whole[:-_EDGE, :-_EDGE])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
