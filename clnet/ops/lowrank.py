"""Few singular values or eigenvalues of large matrices, from random or improved subspaces.

Halko, Martinsson and Tropp, "Finding structure with randomness" (2011); Knyazev, "Toward the
optimal preconditioned eigensolver" (2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..values.plain import shown
from .definite import cholesky
from .join import cat
from .machinery.function import Face, op
from .matmul import matmul
from .orthogonal import linalg_qr
from .random import normal_
from .reduce import mean
from .shape import expand, narrow, unsqueeze
from .spectral import SingularColumns, eigh, linalg_svd
from .triangular import require_matrix, require_square, solve_triangular, turned
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_MOST_ROUNDS = 1000


def _range_of(x: Any, count: int, rounds: int) -> Any:
    """Orthonormal columns that nearly span the columns of ``x``, drawn at random."""
    start = normal_(x.detach().new_empty((*x.shape[:-2], x.shape[-1], count)))
    q = linalg_qr(matmul(x, start)).Q
    for _ in range(rounds):
        q = linalg_qr(matmul(turned(x), q)).Q
        q = linalg_qr(matmul(x, q)).Q
    return q


@op(Face.FUNCTION)
def svd_lowrank(x: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> SingularColumns:  # noqa: N803 - PyTorch's
    """The largest singular values of a matrix, nearly, from a random subspace.

    Args:
        x: ``(..., m, n)``, floating.
        q: how many, somewhat more than the rank.
        niter: rounds that improve the subspace.
        M: what to subtract from ``x`` first; broadcasts to it.

    Returns:
        ``(..., m, q)``, ``(..., q)`` and ``(..., n, q)``.

    Raises:
        ArgumentError: if ``q`` is negative or exceeds a size, or ``niter`` is negative.
        ShapeError: if ``x`` is no matrix, or ``M`` does not broadcast to it.
    """
    require_matrix("svd_lowrank", x)
    if not 0 <= q <= min(x.shape[-2:]):
        raise ArgumentError("svd_lowrank", "q lies in [0, min(m, n)]", q=q, x=x.shape)
    if niter < 0:
        raise ArgumentError("svd_lowrank", "niter is 0 or more", niter=niter)
    centred: Any = x if M is None else x - expand(M, x.shape)
    wide = x.shape[-2] < x.shape[-1]
    tall = turned(centred) if wide else centred
    basis = _range_of(tall, q, niter)
    u, s, vh = linalg_svd(matmul(turned(basis), tall), False)
    u, v = matmul(basis, u), turned(vh)
    return SingularColumns(v, s, u) if wide else SingularColumns(u, s, v)


@op(Face.FUNCTION)
def pca_lowrank(
    x: Tensor,
    q: int | None = None,
    center: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    niter: int = 2,
) -> SingularColumns:
    """Principal components of rows, nearly: :func:`svd_lowrank` of what remains off their mean.

    Args:
        x: ``(..., m, n)``, floating.
        q: how many; None: 6, or the smaller size.
        center: subtract the mean of the rows.
        niter: rounds that improve the subspace.

    Returns:
        As :func:`svd_lowrank`'s.

    Raises:
        ArgumentError: if ``q`` or ``niter`` is out of range.
    """
    require_matrix("pca_lowrank", x)
    count = min(6, *x.shape[-2:]) if q is None else q
    middle = mean(x, -2, keepdim=True) if center else None
    return svd_lowrank(x, count, niter, middle)


@op(Face.FUNCTION)
def lobpcg(
    x: Tensor,
    k: int | None = None,
    B: Tensor | None = None,  # noqa: N803 - PyTorch's names
    X: Tensor | None = None,  # noqa: N803
    n: int | None = None,
    iK: Tensor | None = None,  # noqa: N803
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,  # noqa: FBT001
    method: str | None = None,
    tracker: None = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """A few eigenvalues of a symmetric, positive definite problem ``x @ v = B @ v * value``.

    Args:
        x: ``(m, m)``, floating.
        k: how many; None: the columns of ``X``, or 1.
        B: ``(m, m)``, positive definite; None: the identity.
        X: ``(m, n)`` to begin with; None: random.
        n: columns of a random beginning; None: ``k``.
        iK: ``(m, m)``, close to the inverse of ``x``; None: the identity.
        niter: rounds at most; None: 1000.
        tol: the residual, relative to sizes of ``x`` and ``v``, that is small enough; None: the
            root of the dtype's ``eps``. The host waits for it in every round.
        largest: the largest; else the smallest.
        method: taken for PyTorch's sake, as are the others.
        tracker: as ``method``.
        ortho_iparams: a dict, as ``method``.
        ortho_fparams: a dict, as ``method``.
        ortho_bparams: a dict, as ``method``.

    Returns:
        ``(k,)``, the largest (or smallest) first, and ``(m, k)``.

    Raises:
        ShapeError: if ``m`` is below three times the columns.
        ArgumentError: if parameters are no dict.
    """
    for given in (ortho_iparams, ortho_fparams, ortho_bparams):
        if not isinstance(given, Mapping | None):
            raise ArgumentError("lobpcg", "ortho's parameters are a dict", got=shown(given))
    del method, tracker, ortho_iparams, ortho_fparams, ortho_bparams
    require_square("lobpcg", x)
    count = (1 if X is None else X.shape[-1]) if k is None else k
    columns = (count if n is None else n) if X is None else X.shape[-1]
    rows = x.shape[-1]
    if rows < 3 * columns or not 1 <= count <= columns or x.ndim != 2:
        law = "x is one matrix of three times as many rows as columns are sought, or more"
        raise ShapeError("lobpcg", law, x=x.shape, k=count, n=columns)
    plain = x.detach()
    enough = plain.dtype.eps**0.5 if tol is None else tol
    sign = -1.0 if largest is None or largest else 1.0
    v = normal_(plain.new_empty((rows, columns))) if X is None else X.detach()
    weigh = (lambda w: w) if B is None else (lambda w: matmul(B.detach(), w))
    size = norm(plain)
    values, v, _ = _ritz(plain, weigh, v, columns, sign)
    before: Any = None
    for _ in range(_MOST_ROUNDS if niter is None or niter < 0 else niter):
        rest = matmul(plain, v) - weigh(v) * unsqueeze(values, 0)
        length = norm(narrow(v, -1, 0, count), 2, 0) * size
        if bool((norm(narrow(rest, -1, 0, count), 2, 0) <= enough * length).all().item()):
            break
        step = rest if iK is None else matmul(iK.detach(), rest)
        step = step / (norm(step, 2, 0, keepdim=True) + 1e-30)
        space = [v, step] if before is None else [v, step, before]
        values, v, before = _ritz(plain, weigh, cat(space, -1), columns, sign)
    return narrow(values, 0, 0, count), narrow(v, -1, 0, count)


def _ritz(x: Any, weigh: Any, space: Any, count: int, sign: float) -> tuple[Any, Any, Any]:
    """The best values and vectors in a space, and the vectors' part beyond its first columns."""
    q = linalg_qr(space).Q
    inner = matmul(turned(q), matmul(x, q))
    factor = cholesky(matmul(turned(q), weigh(q)))
    left = solve_triangular(factor, inner, upper=False)
    reduced = solve_triangular(factor, turned(left), upper=False)
    values, vectors = eigh(reduced * sign)
    vectors = solve_triangular(turned(factor), narrow(vectors, -1, 0, count), upper=True)
    found = matmul(q, vectors)
    first = narrow(q, -1, 0, count)
    return (
        narrow(values, 0, 0, count) * sign,
        found,
        found - matmul(first, matmul(turned(first), found)),
    )
