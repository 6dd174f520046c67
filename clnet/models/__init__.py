"""Networks to start from; each takes the shape of an example and the number of classes."""

from .cnn import CNN
from .mlp import MLP

__all__ = ["CNN", "MLP"]
