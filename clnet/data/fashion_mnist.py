"""Fashion-MNIST: clothes, 28x28, 60,000 and 10,000; the format belongs to ``idx``."""

from __future__ import annotations

from .dataset import ArrayDataset
from .idx import load_idx
from .source import Remote, Root

# The authors' repository, because their other server has no TLS.
_URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
_MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
FOLDERS = ("fashion-mnist", "FashionMNIST/raw")
REMOTES = {stem: Remote(f"{_URL}/{stem}.gz", md5) for stem, md5 in _MD5.items()}
_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def FashionMNIST(  # noqa: N802 - torchvision's name
    root: Root = None, *, train: bool = True, download: bool = False
) -> ArrayDataset:
    """The ten kinds of clothes of Zalando Research (Xiao, Rasul, Vollgraf 2017; MIT licence).

    Arguments, results and errors are those of :func:`.mnist.MNIST`; the files are looked for in
    ``fashion-mnist`` and ``FashionMNIST/raw``.
    """
    return load_idx(
        "FashionMNIST",
        root,
        train=train,
        fetch=download,
        folders=FOLDERS,
        remotes=REMOTES,
        classes=_CLASSES,
    )
