"""Products of vectors and matrices beyond matmul: outer, cross, bilinear, over labelled axes."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..expr import Input
from ..values.arguments import require_tensors
from ..values.dtypes import from_name
from ..values.record import NamedTuple
from ..values.shapes import broadcast_shapes, normalize_dim
from .arithmetic import Number, complex_factor, mul
from .complex_parts import conj
from .join import cat
from .machinery.autocast import computes_as_one
from .machinery.function import Face, apply, op
from .machinery.pointwise import Pointwise, evaluate
from .matmul import bmm, matmul, mm
from .rearrange import diagonal
from .reduce import sum as total
from .shape import Slice, narrow, permute, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_ALPHABET = string.ascii_uppercase + string.ascii_lowercase


@op()
def mv(x: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector, ``(m, k)`` and ``(k,)``.

    Raises:
        ShapeError: if they are not a matrix and a vector, or the sizes differ.
    """
    if x.ndim != 2 or vec.ndim != 1:
        raise ShapeError("mv", "operands are a matrix and a vector", a=x.shape, b=vec.shape)
    return matmul(x, vec)


@op()
@computes_as_one
def dot(x: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements.

    Raises:
        ShapeError: if they are not vectors of one size.
    """
    if x.ndim != 1 or x.shape != other.shape:
        raise ShapeError("dot", "operands are vectors of one size", a=x.shape, b=other.shape)
    return matmul(x, other)


@op()
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axes of both; a product, if one has no axes.

    Args:
        x: ``(..., k)``.
        other: ``(..., k)``.

    Returns:
        ``x``'s other axes, then those of ``other``.

    Raises:
        ShapeError: if the last sizes differ.
    """
    if x.ndim == 0 or other.ndim == 0:
        return mul(x, other)
    if x.shape[-1] != other.shape[-1]:
        raise ShapeError("inner", "the last sizes are equal", a=x.shape, b=other.shape)
    return tensordot(x, other, ([-1], [-1]))


@op()
def outer(x: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors' elements: ``(n,)`` and ``(m,)`` give ``(n, m)``.

    Raises:
        ShapeError: if they are not vectors.
    """
    if x.ndim != 1 or vec2.ndim != 1:
        raise ShapeError("outer", "operands are vectors", a=x.shape, b=vec2.shape)
    return mul(unsqueeze(x, 1), vec2)


@op()
def kron(x: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product: every element of ``x`` times all of ``other``, as blocks.

    Args:
        x: any shape; the one with fewer axes gets leading axes of size 1.
        other: any shape.

    Returns:
        The sizes of both multiplied, axis by axis.
    """
    ndim = max(x.ndim, other.ndim)
    a, b = ((1,) * (ndim - t.ndim) + t.shape for t in (x, other))
    blocks = reshape(x, tuple(n for size in a for n in (size, 1)))
    inside = reshape(other, tuple(n for size in b for n in (1, size)))
    return reshape(mul(blocks, inside), tuple(n * m for n, m in zip(a, b, strict=True)))


def _blend(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    return beta * x + alpha * product


def _product_alone(x: Any, product: Any, alpha: Any) -> Any:
    return alpha * product


def _added(name: str, x: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """``beta * x + alpha * product``; with ``beta`` 0, NaN in ``x`` stays out."""
    if broadcast_shapes(name, x.shape, product.shape) != product.shape:
        raise ShapeError(name, "x broadcasts to the product", x=x.shape, product=product.shape)
    if isinstance(alpha, complex):
        product, alpha = mul(product, complex_factor(name, alpha, product)), 1
    if isinstance(beta, complex):
        x, beta = mul(x, complex_factor(name, beta, x)), 1 if beta else 0
    if beta == 0:
        return evaluate(name, _product_alone, [x, product], [alpha])
    return evaluate(name, _blend, [x, product], [beta, alpha])


@op()
@computes_as_one
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * x + alpha * (mat1 @ mat2)``.

    Args:
        x: broadcasts to ``(m, n)``; of no effect if ``beta`` is 0.
        mat1: ``(m, k)``.
        mat2: ``(k, n)``.
        beta: a number; a complex one with complex operands.
        alpha: as ``beta``.

    Returns:
        ``(m, n)``.

    Raises:
        ShapeError: if the shapes do not fit.
    """
    return _added("addmm", x, mm(mat1, mat2), beta, alpha)


@op()
@computes_as_one
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * x + alpha * (mat @ vec)``, ``(m,)``; otherwise as :func:`addmm`."""
    return _added("addmv", x, mv(mat, vec), beta, alpha)


@op()
@computes_as_one
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * x + alpha * outer(vec1, vec2)``; otherwise as :func:`addmm`."""
    return _added("addr", x, outer(vec1, vec2), beta, alpha)


@op()
@computes_as_one
def baddbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * x + alpha * bmm(batch1, batch2)``, ``(b, m, n)``; otherwise as :func:`addmm`."""
    return _added("baddbmm", x, bmm(batch1, batch2), beta, alpha)


@op()
@computes_as_one
def addbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * x + alpha * bmm(batch1, batch2).sum(0)``, one product; otherwise as :func:`addmm`.

    Args:
        x: broadcasts to ``(m, n)``.
        batch1: ``(b, m, k)``.
        batch2: ``(b, k, n)``.
        beta: a number; a complex one with complex operands.
        alpha: as ``beta``.

    Returns:
        ``(m, n)``.

    Raises:
        ShapeError: if the shapes do not fit.
    """
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise ShapeError("addbmm", "operands are stacks", a=batch1.shape, b=batch2.shape)
    product = tensordot(batch1, batch2, ([0, 2], [0, 1]))
    return _added("addbmm", x, product, beta, alpha)


@op()
@computes_as_one
def tensordot(x: Tensor, other: Tensor, dims: int | Sequence[int | Sequence[int]] = 2) -> Tensor:
    """Sums of products over pairs of axes, as one matrix product.

    Args:
        x: any shape.
        other: any shape, same dtype.
        dims: how many of the last axes of ``x`` meet the first of ``other``, or the axes of ``x``
            and those of ``other`` that meet, pair by pair.

    Returns:
        ``x``'s other axes, then those of ``other``.

    Raises:
        ShapeError: if axes that meet differ in number, or in size and neither's is 1.
    """
    left, right = _pairs_of_axes(x, other, dims)
    if len(left) == len(right):
        x, other = _with_ones(x, left, other, right), _with_ones(other, right, x, left)
    met = [x.shape[d] for d in left]
    if met != [other.shape[d] for d in right]:
        raise ShapeError(
            "tensordot", "axes that meet have one size", a=x.shape, b=other.shape, dims=dims
        )
    free = [d for d in range(x.ndim) if d not in left]
    other_free = [d for d in range(other.ndim) if d not in right]
    rows = [x.shape[d] for d in free]
    columns = [other.shape[d] for d in other_free]
    a = reshape(permute(x, (*free, *left)), (prod(rows), prod(met)))
    b = reshape(permute(other, (*right, *other_free)), (prod(met), prod(columns)))
    return reshape(mm(a, b), (*rows, *columns))


def _with_ones(x: Tensor, dims: Sequence[int], other: Tensor, others: Sequence[int]) -> Tensor:
    """``x`` with those axes summed that meet an axis of 1, which is broadcast."""
    alone = [d for d, o in zip(dims, others, strict=True) if other.shape[o] == 1 != x.shape[d]]
    return to_dtype(total(x, alone, True), x.dtype) if alone else x


def _pairs_of_axes(
    x: Tensor, other: Tensor, dims: int | Sequence[int | Sequence[int]]
) -> tuple[list[int], list[int]]:
    """The axes of two tensors that meet, pair by pair, as ``dims`` of :func:`tensordot` say."""
    if isinstance(dims, int):
        if dims < 0:
            raise ArgumentError("tensordot", "dims is 0 or more", dims=dims)
        left, right = range(x.ndim - dims, x.ndim), range(dims)
    elif len(dims) == 2:
        left, right = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    else:
        raise ArgumentError("tensordot", "dims are axes of x and of other", dims=dims)
    return (
        [normalize_dim("tensordot", d, x.ndim) for d in left],
        [normalize_dim("tensordot", d, other.ndim) for d in right],
    )


class _Labelled(NamedTuple):
    """A tensor with a label on each axis, no label twice."""

    x: Tensor
    labels: tuple[str, ...]

    def size(self, label: str) -> int:
        """The size of a label's axis; 1 where it has none."""
        return self.x.shape[self.labels.index(label)] if label in self.labels else 1


@op()
def einsum(equation: str | Tensor, *operands: Any) -> Tensor:
    """Sums of products over labelled axes, in Einstein's notation.

    Operands are joined from the left, two at a time, each pair as one batched matrix product.

    Args:
        equation: a term of letters for each operand, separated by commas, then, optionally,
            ``->`` and the result's letters. ``...`` stands for further axes, which broadcast.
            Without ``->`` the result has, in alphabetical order, the letters that occur once. Or
            the first tensor: then a list of numbers below 52 and ``...`` follows each tensor in the
            place of its term, and last, optionally, the result's.
        *operands: tensors, or one sequence of them.

    Returns:
        A tensor with the result's axes; the other letters are summed over.

    Raises:
        ArgumentError: if the equation is malformed, or has another number of terms.
        ShapeError: if a term has not the operand's number of axes, or a letter has two sizes.

    Example:
        >>> import clnet
        >>> clnet.einsum("bij,bjk->bik", clnet.ones(2, 3, 4), clnet.ones(2, 4, 5)).shape
        (2, 3, 5)
    """
    if not isinstance(equation, str):
        equation, operands = _lettered((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    require_tensors("einsum", **{f"operands[{k}]": x for k, x in enumerate(operands)})
    terms, result = _parsed(equation, tuple(tuple(x.shape) for x in operands))
    given = [_diagonals(x, term) for x, term in zip(operands, terms, strict=True)]
    for i in range(len(given)):
        later = set(result).union(*(g.labels for g in given[:i] + given[i + 1 :]))
        given[i] = _summed(given[i], later)
    joined = given[0]
    for i, following in enumerate(given[1:], 1):
        later = set(result).union(*(g.labels for g in given[i + 1 :]))
        pair = joined, following
        if i == len(given) - 1 and _ends_in_rows(joined, following, result):
            pair = following, joined  # the result lies as it is named, which views ask for
        joined = _joined(*pair, later)
    order = tuple(joined.labels.index(label) for label in result)
    return permute(joined.x, order) if len(given) == 1 else _permuted(joined.x, order)


def _ends_in_rows(a: _Labelled, b: _Labelled, result: tuple[str, ...]) -> bool:
    """Whether the last label of a result that one of two alone has is the first one's."""
    for label in reversed(result):
        if (label in a.labels) != (label in b.labels):
            return label in a.labels
    return False


def _permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    return x if tuple(order) == tuple(range(x.ndim)) else permute(x, tuple(order))


def _reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x if x.shape == tuple(shape) else reshape(x, tuple(shape))


def _lettered(given: Sequence[Any]) -> tuple[str, tuple[Tensor, ...]]:
    """The equation and the tensors of ``x, [0, 1], y, [1, 2], [0, 2]``."""
    *pairs, last = given if len(given) % 2 else (*given, None)
    terms = [_letters(numbers) for numbers in pairs[1::2]]
    result = "" if last is None else f"->{_letters(last)}"
    return ",".join(terms) + result, tuple(pairs[::2])


def _letters(numbers: Any) -> str:
    law = "a tensor without an equation is followed by a list of numbers below 52 and ..."
    if not isinstance(numbers, list | tuple):
        raise ArgumentError("einsum", law, labels=numbers)
    for n in numbers:
        if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < len(_ALPHABET)):
            raise ArgumentError("einsum", law, label=n)
    return "".join("..." if n is Ellipsis else _ALPHABET[n] for n in numbers)


@lru_cache(maxsize=1024)  # twice as dear as what a small product costs the host
def _parsed(
    equation: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of each operand's axes and of the result's; an ellipsis' axes are "0", "1" ..."""
    terms, result = _labelled(equation, shapes)
    _check_sizes(equation, terms, shapes)
    return terms, result


def _labelled(
    equation: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    text = equation.replace(" ", "")
    match = re.fullmatch(rf"({_TERM}(?:,{_TERM})*)(->({_TERM}))?", text)
    if match is None:
        raise ArgumentError("einsum", "an equation has letters, ',', '...' and '->'", got=equation)
    written = match[1].split(",")
    if len(written) != len(shapes) or not shapes:
        raise ArgumentError(
            "einsum", "there is a term for each operand", equation=equation, operands=len(shapes)
        )
    free = [len(s) - len(t.replace("...", "")) for s, t in zip(shapes, written, strict=True)]
    most = max((n for n, t in zip(free, written, strict=True) if "..." in t), default=0)
    terms = []
    for shape, term, count in zip(shapes, written, free, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ShapeError("einsum", f"{term!r} labels every axis", x=shape)
        terms.append(_labels(term, range(most - count, most)))
    if match[2] is not None:
        return terms, _result_labels(equation, _labels(match[3], range(most)), terms)
    letters = [label for term in terms for label in term if label.isalpha()]
    once = sorted(label for label in set(letters) if letters.count(label) == 1)
    return terms, (*map(str, range(most)), *once)


def _labels(term: str, free: Sequence[int]) -> tuple[str, ...]:
    before, dots, after = term.partition("...")
    return (*before, *(map(str, free) if dots else ()), *after)


def _result_labels(
    equation: str, result: tuple[str, ...], terms: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    known = set[str]().union(*terms)
    if len(set(result)) != len(result) or not set(result) <= known:
        raise ArgumentError(
            "einsum", "the result's letters occur once there and in a term", equation=equation
        )
    return result


def _check_sizes(
    equation: str, terms: Sequence[tuple[str, ...]], shapes: tuple[tuple[int, ...], ...]
) -> None:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            if sizes.setdefault(label, size) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                raise ShapeError(
                    "einsum",
                    f"label {label!r} of {equation!r} has two sizes",
                    shapes=[*shapes],
                )


def _diagonals(x: Tensor, term: tuple[str, ...]) -> _Labelled:
    """Axes that share a label become one, their diagonal."""
    labels = list(term)
    for label in dict.fromkeys(term):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [d for d in range(x.ndim) if d not in (first, second)]
            n = x.shape[first]
            if n != x.shape[second]:
                raise ShapeError("einsum", f"axes of one label {label!r} are equal", x=x.shape)
            x = permute(x, (*rest, first, second))
            x = reshape(x, (*x.shape[:-2], n * n))
            starts, steps = (0,) * x.ndim, (*(1,) * (x.ndim - 1), n + 1)
            x = apply(Slice(starts, steps, (*x.shape[:-1], n)), x)
            labels = [labels[d] for d in rest] + [label]
    return _Labelled(x, tuple(labels))


def _summed(given: _Labelled, wanted: set[str]) -> _Labelled:
    """Summed over the labels that nothing else has."""
    dims = [i for i, label in enumerate(given.labels) if label not in wanted]
    if not dims:
        return given
    return _Labelled(total(given.x, dims), tuple(c for c in given.labels if c in wanted))


def _joined(a: _Labelled, b: _Labelled, later: set[str]) -> _Labelled:
    """The product of two, summed over what only they have, as one batched matrix product.

    Of ``bij,bjk->bik``:

    =========  ======  ==========================================  ==========
    what       labels  which they are                              in matmul
    =========  ======  ==========================================  ==========
    batch      ``b``   both have them, and something later, too    stack
    met        ``j``   both have them, and nothing later           inner axis
    left       ``i``   only ``a`` has them                         rows
    right      ``k``   only ``b`` has them                         columns
    =========  ======  ==========================================  ==========

    An axis of size 1 that broadcasts is one of the stack's, and summed afterwards.
    """
    both = [label for label in a.labels if label in b.labels]
    met = [c for c in both if c not in later and a.size(c) == b.size(c)]
    batch = [label for label in both if label not in met]
    left = [label for label in a.labels if label not in both]
    right = [label for label in b.labels if label not in both]
    first, second = _arranged(a, batch, left, met), _arranged(b, batch, met, right)
    product = matmul(first, second) if met else mul(first, second)
    labels = (*batch, *left, *right)
    shape = tuple(a.size(c) if b.size(c) == 1 else b.size(c) for c in labels)
    return _summed(_Labelled(_reshaped(product, shape), labels), later)


def _arranged(
    given: _Labelled, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> Tensor:
    """A stack of matrices: an axis for each of the batch, one of all rows, one of all columns."""
    order = [given.labels.index(label) for label in (*batch, *rows, *columns)]
    sizes = (prod(map(given.size, rows)), prod(map(given.size, columns)))
    return _reshaped(_permuted(given.x, order), (*map(given.size, batch), *sizes))


@op(Face.FUNCTION | Face.FUNCTIONAL)
@computes_as_one
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y[..., o] = x1[..., :] @ weight[o] @ x2[..., :] + bias[o]``.

    Args:
        x1: ``(..., in1)``, floating.
        x2: ``(..., in2)``, same leading axes and dtype.
        weight: ``(out, in1, in2)``, same dtype.
        bias: ``(out,)`` or None.

    Returns:
        ``(..., out)``.

    Raises:
        ShapeError: if the sizes do not fit.
        DtypeError: if the dtypes differ.
    """
    fits = weight.ndim == 3 and x1.ndim > 0 and x1.shape[:-1] == x2.shape[:-1]
    if not fits or (x1.shape[-1], x2.shape[-1]) != weight.shape[1:]:
        raise ShapeError(
            "bilinear",
            "x1 and x2 end in the weight's last two sizes, their other axes agree",
            x1=x1.shape,
            x2=x2.shape,
            weight=weight.shape,
        )
    out, in1, in2 = weight.shape
    if bias is not None and bias.shape != (out,):
        raise ShapeError(
            "bilinear", "the bias has one number for each output", weight=weight.shape,
            bias=bias.shape,
        )  # fmt: skip
    lead = x1.shape[:-1]
    rows = prod(lead)
    halves = reshape(permute(weight, (1, 0, 2)), (in1, out * in2))
    left = reshape(matmul(reshape(x1, (rows, in1)), halves), (rows, out, in2))
    y = reshape(matmul(left, reshape(x2, (rows, in2, 1))), (*lead, out))
    return y if bias is None else y + bias


@op()
def trace(x: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    Raises:
        ShapeError: if ``x`` is no matrix.
    """
    if x.ndim != 2:
        raise ShapeError("trace", "x is a matrix", x=x.shape)
    return total(diagonal(x))


@op(name="linalg.vecdot", face=Face.LINALG)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """``sum(conj(x) * y)`` along an axis; both are broadcast together."""
    return total(conj(x) * y, dim)


@op()
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """As :func:`dot`, of the conjugate of the first vector."""
    return conj(x).dot(other)


@op(name="linalg.cross", face=Face.LINALG)
def linalg_cross(x: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis.

    Args:
        x: any shape with three elements along the axis.
        other: broadcasts with it.
        dim: the axis.

    Returns:
        The broadcast shape.

    Raises:
        ShapeError: if the axis has another size.
    """
    axis = normalize_dim("cross", dim, x.ndim)
    if x.ndim != other.ndim or x.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError("cross", "the axis has three elements", x=x.shape, other=other.shape)
    parts = [narrow(v, axis, i, 1) for v in (x, other) for i in range(3)]
    kind = x.dtype
    if kind is other.dtype and kind.is_floating_point:
        function = Pointwise("cross", _CROSS, (), from_name(kind.compute), (kind,) * 3)
        return cat(apply(function, *parts), axis)
    return cat(_crossed(*parts), axis)


def _crossed(a0: Any, a1: Any, a2: Any, b0: Any, b1: Any, b2: Any) -> list[Any]:
    return [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]


_CROSS = tuple(_crossed(*map(Input, range(6))))


@op()
@computes_as_one
def cross(x: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """As :func:`linalg.cross`; without ``dim`` along the first axis of three elements."""
    if dim is None:
        axes = [d for d, n in enumerate(x.shape) if n == 3]
        if not axes:
            raise ShapeError("cross", "an axis has three elements", x=x.shape, other=other.shape)
        dim = axes[0]
    return linalg_cross(x, other, dim=dim)
