"""MNIST: handwritten digits, 28x28, 60,000 and 10,000; the format belongs to ``idx``."""

from __future__ import annotations

from .dataset import ArrayDataset
from .idx import load_idx
from .source import Remote, Root

# LeCun's own server refuses downloads; this mirror is PyTorch's.
_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
REMOTES = {stem: Remote(f"{_URL}/{stem}.gz", md5) for stem, md5 in _MD5.items()}


def MNIST(  # noqa: N802 - torchvision's name
    root: Root = None, *, train: bool = True, download: bool = False
) -> ArrayDataset:
    """The handwritten digits of LeCun, Cortes and Burges.

    Args:
        root: the folder with the IDX files (``.gz`` or plain); by default ``mnist`` in
            ``CLNET_DATA``, then in the cache.
        train: the 60,000 training images, or the 10,000 test images.
        download: whether to download them where they are absent.

    Returns:
        Images ``(n, 1, 28, 28)`` uint8 and labels ``(n,)`` int64.

    Raises:
        DataError: if the files are absent (with every place looked at), truncated or damaged.
    """
    return load_idx(
        "MNIST",
        root,
        train=train,
        fetch=download,
        folders=("mnist", "MNIST/raw"),
        remotes=REMOTES,
        classes=[str(digit) for digit in range(10)],
    )
