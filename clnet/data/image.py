"""Image files to arrays, in threads; the only module that knows Pillow."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, refusal, shortened

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm")
_MOST_PIXELS = 2**26
_CHUNK = 256  # images a thread takes at a time: a task costs as much as decoding a small one


class Encoded(NamedTuple):
    """A file's bytes, and what to call it in an error."""

    name: str
    content: bytes


def read(path: Path) -> Encoded:
    """The bytes of a file.

    Args:
        path: the file.

    Returns:
        Them, under the file's path.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return Encoded(str(path), path.read_bytes())
    except OSError as error:
        raise DataError(str(path), "the file cannot be read", error=refusal(error)) from error


def decode(images: Sequence[Encoded], *, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """Decode image files into one array.

    Args:
        images: the files, 1 or more.
        size: ``(h, w)`` to resize each to; None if they are of one size already.

    Returns:
        ``(n, 3, h, w)``, RGB.

    Raises:
        DataError: if Pillow is not installed, or an image is damaged or of another size.
    """
    h, w = size or _decode_one(images[0], None).shape[1:]
    out = np.empty((len(images), 3, h, w), np.uint8)

    def fill(start: int) -> None:
        for i, image in enumerate(images[start : start + _CHUNK], start):
            pixels = _decode_one(image, size)
            if pixels.shape != out.shape[1:]:
                raise DataError(
                    image.name,
                    "images of one size are needed",
                    height_width=pixels.shape[1:],
                    first=(h, w),
                    remedy="Give a size to resize them to",
                )
            out[i] = pixels

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(fill, range(0, len(images), _CHUNK)):
            pass
    return out


def _decode_one(image: Encoded, size: tuple[int, int] | None) -> NDArray[Any]:
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ImportError as error:
        raise DataError(
            image.name,
            "decoding images needs Pillow",
            error=error,
            remedy="pip install 'clnet[data]'",
        ) from error
    try:
        with Image.open(io.BytesIO(image.content)) as opened:
            if opened.width * opened.height > _MOST_PIXELS:  # before memory is taken for them
                raise DataError(
                    image.name, f"an image has at most {_MOST_PIXELS:,} pixels", size=opened.size
                )
            pixels = opened.convert("RGB")
    except DataError:
        raise
    except Exception as error:  # Pillow's readers meet damaged bytes with errors of many kinds
        raise DataError(
            image.name,
            "not a whole image",
            bytes=len(image.content),
            error=shortened(error),
        ) from error
    if size is not None and pixels.size != size[::-1]:
        pixels = pixels.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(pixels).transpose(2, 0, 1)
