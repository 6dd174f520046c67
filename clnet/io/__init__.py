"""Files: arrays, training states and what PyTorch's ``save`` takes, in safetensors.

``state`` holds named arrays, ``checkpoint`` a tree of them, ``saved`` is ``clnet.save`` and
``clnet.load``; ``torch_file`` reads PyTorch's files, whose pickles ``unpickle`` reads as data;
``gguf``, ``mxnet_file`` and ``caffe_file`` read the weights of llama.cpp, MXNet and Caffe.
"""

from __future__ import annotations

from .caffe_file import load_caffe
from .checkpoint import load_checkpoint, save_checkpoint
from .gguf import Gguf, load_gguf
from .mxnet_file import load_mxnet
from .saved import load, save
from .state import State, load_state, save_state

__all__ = [
    "Gguf",
    "State",
    "load",
    "load_caffe",
    "load_checkpoint",
    "load_gguf",
    "load_mxnet",
    "load_state",
    "save",
    "save_checkpoint",
    "save_state",
]
