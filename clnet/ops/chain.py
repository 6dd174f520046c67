"""Products of several matrices, in the order that takes the fewest multiplications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ArgumentError, ShapeError
from .machinery.function import Face, op
from .matmul import matmul
from .shape import dense_copy, reshape, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


@op(name="linalg.multi_dot", face=Face.LINALG)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications.

    Args:
        tensors: two or more; the first and the last may be vectors.

    Returns:
        Their product.

    Raises:
        ArgumentError: if there are fewer than two.
        ShapeError: if neighbours do not fit.
    """
    if len(tensors) < 2:
        raise ArgumentError("multi_dot", "there are two or more", tensors=len(tensors))
    axes = [x.ndim for x in tensors]
    if {*axes[1:-1]} - {2} or {axes[0], axes[-1]} - {1, 2}:
        law = "matrices are multiplied; the first and the last may be vectors"
        raise ShapeError("multi_dot", law, shapes=[x.shape for x in tensors])
    first, last = tensors[0], tensors[-1]
    chain = [unsqueeze(first, 0) if first.ndim == 1 else first, *tensors[1:-1]]
    chain.append(unsqueeze(last, 1) if last.ndim == 1 else last)
    y = _product(chain, _cuts([x.shape[0] for x in chain] + [chain[-1].shape[1]]), 0, len(chain))
    y = reshape(y, y.shape[:-1]) if last.ndim == 1 else y
    return reshape(y, y.shape[1:]) if first.ndim == 1 else y


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where each part of a chain is cut in two, by its first matrix and the one behind its last."""
    count = len(sizes) - 1
    costs = {(i, i + 1): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            k = i + length
            each = {
                j: costs[i, j] + costs[j, k] + sizes[i] * sizes[j] * sizes[k]
                for j in range(i + 1, k)
            }
            cuts[i, k] = min(each, key=lambda j: each[j])
            costs[i, k] = each[cuts[i, k]]
    return cuts


def _product(chain: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int, k: int) -> Tensor:
    if k == i + 1:
        return chain[i]
    j = cuts[i, k]
    return matmul(_product(chain, cuts, i, j), _product(chain, cuts, j, k))


@op(Face.FUNCTION)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, as :func:`linalg.multi_dot`.

    Raises:
        ShapeError: if one is no matrix.
    """
    if any(m.ndim != 2 for m in matrices):
        raise ShapeError(
            "chain_matmul", "operands are matrices", shapes=[m.shape for m in matrices]
        )
    return dense_copy(matrices[0]) if len(matrices) == 1 else multi_dot(matrices)
