"""What distributions that programs write take from ``torch.distributions.utils``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import ops
from ..autograd import enable_grad
from ..errors import ArgumentError, KindError, ShapeError
from ..inspection import finfo
from ..random import randn
from ..tensor import Tensor, tensor
from ..values.arguments import shown
from ..values.dtypes import DType
from ..values.lazy import lazy

__all__ = [
    "Kept",
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


class Kept:
    """A parameter that lies in the object; of the class, so that ``super().logits`` finds it, too.

    Args:
        compute: gives it, from what the object holds, where it does not lie there yet.
    """

    def __init__(self, compute: Callable[[dict[str, Any]], Any]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        held = vars(instance)
        if self._name not in held:
            try:
                with enable_grad():  # it outlives a sample(), in which none is recorded
                    held[self._name] = self._compute(held)
            except KeyError as error:
                text = f"{type(instance).__name__} has no attribute {self._name!r}"
                raise AttributeError(text) from error
        return held[self._name]


class lazy_property(lazy):  # noqa: N801 - PyTorch's name
    """A method's value, computed at the first use and kept; on the tape also within ``no_grad``."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        with enable_grad():
            return super().__get__(instance, owner)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape, numbers in the dtype of the first tensor.

    Raises:
        KindError: if one is neither.
    """
    if any(not isinstance(v, Tensor | Number) for v in values):
        law = "values are tensors or numbers"
        raise KindError("broadcast_all", law, got=", ".join(map(shown, values)))
    first = next((v for v in values if isinstance(v, Tensor)), None)
    like: dict[str, Any] = {} if first is None else {"dtype": first.dtype, "device": first.device}
    made = (v if isinstance(v, Tensor) else tensor(v if like else float(v), **like) for v in values)
    return tuple(ops.broadcast_tensors(*made))


def _standard_normal(  # for packages
    shape: Sequence[int], dtype: DType | None, device: Any
) -> Tensor:
    """Drawn numbers, by the name that packages import."""
    return randn(*shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:  # for packages
    """Summed over so many of the last axes."""
    return value if dim == 0 else value.reshape(*value.shape[:-dim], -1).sum(-1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of square matrices, row by row.

    Raises:
        ArgumentError: if there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        law = "the diagonal lies in the matrix"
        raise ArgumentError("tril_matrix_to_vec", law, diag=diag, size=n)
    rows, columns = np.tril_indices(n, diag)
    places = tensor(rows * n + columns, device=mat.device)
    return mat.reshape(*mat.shape[:-2], n * n).index_select(-1, places)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices with the elements on and below a diagonal, row by row, and zeros above.

    Raises:
        ShapeError: if no matrix has so many.
    """
    given = vec.shape[-1]
    fit = [n for n in range(1, given + abs(diag) + 2) if len(np.tril_indices(n, diag)[0]) == given]
    if not fit:
        law = "the last axis has as many elements as the triangle of a matrix"
        raise ShapeError("vec_to_tril_matrix", law, shape=vec.shape, diag=diag)
    n = fit[0]
    rows, columns = np.tril_indices(n, diag)
    places = tensor(rows * n + columns, device=vec.device)
    flat = vec.new_zeros(*vec.shape[:-1], n * n)
    return flat.index_copy(-1, places, vec).reshape(*vec.shape[:-1], n, n)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """Logarithms of probabilities, or of odds of two ways."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """The inverse: a sigmoid, or a softmax over the last axis."""
    return logits.sigmoid() if is_binary else ops.softmax(logits, -1)
