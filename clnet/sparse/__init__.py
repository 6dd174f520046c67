"""``clnet.sparse``: tensors that keep the elements that are not 0, and what is computed with them.

``layout`` holds the two forms (coordinates, compressed rows or columns) and how they are made of
each other, ``product`` sums and products. All of it is composed of ops on dense tensors: rows are
gathered and added up in a fixed order, so results are the same bits every time and gradients flow
to values and dense operands.
"""

from __future__ import annotations

from typing import Any

from .construction import (
    dense_to_coo,
    dense_to_csc,
    dense_to_csr,
    dense_to_sparse,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    sparse_mask,
)
from .layout import SparseTensor
from .product import addmm, log_softmax, mm, sampled_addmm, softmax, spdiags, sum  # noqa: A004
from .typed import TYPES, typed_class

__all__ = [
    "SparseTensor",
    "addmm",
    "dense_to_coo",
    "dense_to_csc",
    "dense_to_csr",
    "dense_to_sparse",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
    "spdiags",
    "sum",
]


def __getattr__(name: str) -> Any:
    """PyTorch's old names: ``sparse.FloatTensor`` and the like."""
    if name in TYPES:
        return typed_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
