"""Data sets, transforms and loaders: NumPy in, NumPy out; no device, no tensor."""

from __future__ import annotations

from .cifar10 import CIFAR10
from .counter import Draw
from .dataset import ArrayDataset, Dataset, Subset, random_split
from .digits import Digits
from .ece408 import ECE408
from .fashion_mnist import FashionMNIST
from .image_folder import ImageFolder
from .loader import DataLoader
from .mnist import MNIST
from .resize import Resize, resize
from .text import Texts, Vocabulary, Windows, columns, load_text, tokenize
from .transform import (
    ChannelStats,
    Compose,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    ToFloat,
    Transform,
    channel_stats,
)

__all__ = [
    "CIFAR10",
    "ECE408",
    "MNIST",
    "ArrayDataset",
    "ChannelStats",
    "Compose",
    "DataLoader",
    "Dataset",
    "Digits",
    "Draw",
    "FashionMNIST",
    "ImageFolder",
    "Normalize",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "Resize",
    "Subset",
    "Texts",
    "ToFloat",
    "Transform",
    "Vocabulary",
    "Windows",
    "channel_stats",
    "columns",
    "load_text",
    "random_split",
    "resize",
    "tokenize",
]
