"""CIFAR's "python version", which torchvision keeps: pickles of a dictionary, read as data."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .image import Encoded, read
from .unpack import reading

# What the files name: NumPy's way to make an array. Nothing else is looked up, so nothing runs.
_KNOWN = {
    **dict.fromkeys(
        (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")),
        np.ndarray(0).__reduce__()[0],
    ),
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # How Python 3 writes bytes for Python 2.
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return _KNOWN[module, name]


def records(path: Path, bytes_of_image: int) -> Encoded:
    """A batch as the binary version has it: for each image a label, then its planes.

    Args:
        path: such as ``data_batch_1``.
        bytes_of_image: of each.

    Raises:
        DataError: if the file is damaged, or no batch.
    """
    name, content = read(path)
    with reading(path, "a batch of CIFAR's python version"):
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        if images.dtype != np.uint8 or images.shape != (len(labels), bytes_of_image):
            law = f"images are rows of {bytes_of_image} bytes, as many as labels"
            raise DataError(name, law, images=images.shape, labels=len(labels))
        if (
            labels.dtype.kind not in "iu"
            or labels.min(initial=0) < 0
            or labels.max(initial=0) > 255
        ):
            raise DataError(name, "labels are whole numbers from 0 on", dtype=labels.dtype)
        return Encoded(name, np.column_stack([labels.astype(np.uint8), images]).tobytes())
