"""The training loop: epochs, metrics, progress, checkpoints, resume."""

from .history import History
from .metrics import accuracy
from .trainer import Trainer

__all__ = ["History", "Trainer", "accuracy"]
