"""Files: arrays, training states and what PyTorch's ``save`` takes, in safetensors.

``state`` holds named arrays, ``checkpoint`` a tree of them, ``saved`` is ``clnet.save`` and
``clnet.load``; ``torch_file`` reads PyTorch's files, whose pickles ``unpickle`` reads as data.
"""

from __future__ import annotations

from .checkpoint import load_checkpoint, save_checkpoint
from .saved import load, save
from .state import State, load_state, save_state

__all__ = [
    "State",
    "load",
    "load_checkpoint",
    "load_state",
    "save",
    "save_checkpoint",
    "save_state",
]
