"""``torch.functional``: all ops, and what PyTorch writes in Python beside them."""

# ruff: noqa: F403 - names of a star

from __future__ import annotations

from ..face.further import unravel_index as unravel_index
from ..fft import istft as istft
from ..fft import stft as stft
from ..inspection import broadcast_shapes as broadcast_shapes
from ..ops import *

__all__ = [
    *("atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes"),
    *("broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum"),
    *("istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft"),
    *("svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index"),
]
