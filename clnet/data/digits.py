"""The digits that come with the package, so that a first training needs no download."""

from __future__ import annotations

from importlib import resources

import numpy as np

from .counter import permutation
from .dataset import ArrayDataset

_TEST_FRACTION = 0.2


def Digits(*, train: bool = True, seed: int = 0) -> ArrayDataset:  # noqa: N802 - as its siblings
    """1,797 handwritten digits of 8x8 pixels, with values from 0 to 16.

    They are the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak,
    1998; UCI Machine Learning Repository, doi 10.24432/C50P49; licence CC BY 4.0), the same images
    as ``sklearn.datasets.load_digits``, stored here as bytes.

    Args:
        train: about 80 % of each class, or the other 20 %.
        seed: chooses the split.

    Returns:
        Images ``(n, 1, 8, 8)`` uint8 and labels ``(n,)`` int64.

    Example:
        >>> len(Digits()), len(Digits(train=False))
        (1438, 359)
    """
    with (
        resources.files("clnet.data").joinpath("digits.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        images, labels = stored["images"], stored["labels"].astype(np.int64)
    order = permutation(len(labels), seed)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        members = order[labels[order] == label]
        test[members[: round(len(members) * _TEST_FRACTION)]] = True
    chosen = order[test[order] != train]
    return ArrayDataset(
        images[chosen][:, np.newaxis],
        labels[chosen],
        classes=[str(digit) for digit in range(10)],
    )
