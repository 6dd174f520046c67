"""Fashion-MNIST as the ECE408 course project has it: 48x48, bytes, not normalised."""

from __future__ import annotations

import numpy as np

from .dataset import ArrayDataset
from .fashion_mnist import FashionMNIST
from .resize import resize
from .source import Root

_SIZE = (48, 48)
# Images at a time: the double precision of more leaves the caches, and its pages are new each time.
_CHUNK = 64
# A sum of weights times whole numbers may fall short of a whole number by its rounding errors.
_ROUNDING = 1e-9


def ECE408(  # noqa: N802 - like the other data sets
    root: Root = None, *, train: bool = True, download: bool = False
) -> ArrayDataset:
    """Fashion-MNIST interpolated to 48x48, with zeros around the image, cut off to bytes.

    Args:
        root: as :func:`~clnet.data.FashionMNIST`'s.
        train: the 60,000 training images, or the 10,000 test images.
        download: whether to download them where they are absent.

    Returns:
        Images ``(n, 1, 48, 48)`` uint8 and labels ``(n,)`` int64.

    Raises:
        DataError: as for :func:`~clnet.data.FashionMNIST`.
    """
    data = FashionMNIST(root, train=train, download=download)
    images, labels = data.arrays
    larger = np.empty((len(images), 1, *_SIZE), np.uint8)
    for i in range(0, len(images), _CHUNK):
        part = resize(images[i : i + _CHUNK], _SIZE, beyond="zero")
        part += _ROUNDING
        larger[i : i + _CHUNK] = np.floor(part, out=part)
    return ArrayDataset(larger, labels, classes=data.classes)
