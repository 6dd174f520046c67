"""Functions and methods that no op declares: those of a few lines, and where the others go."""

# ruff: noqa: A002, FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from .. import expr as e
from .. import ops
from ..creation import arange, empty
from ..errors import ArgumentError, DtypeError, ShapeError
from ..ops.machinery.function import PUBLIC_OPS, Face
from ..ops.machinery.pointwise import evaluate
from ..tensor import Tensor, tensor
from ..values.arguments import checked
from ..values.dtypes import DType, as_dtype, complex128, float64, int64
from ..values.plain import number, shown
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import normalize_dim
from .attribute import empty_strided
from .histogram import histogram, histogramdd
from .overwriting import cauchy_, exponential_, geometric_, log_normal_, overwriting
from .strided import as_strided, as_strided_, as_strided_scatter
from .window import bartlett_window, blackman_window, kaiser_window

__all__ = ["FUNCTIONS", "MinMax", "unravel_index"]


class MinMax(NamedTuple):
    """What :func:`aminmax` gives."""

    min: Tensor
    max: Tensor


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The least and the largest element, of all or along an axis."""
    made = returned("aminmax", MinMax)
    if dim is None:
        shape = (1,) * input.ndim if keepdim else ()
        return made(ops.amin(input).reshape(shape), ops.amax(input).reshape(shape))
    return made(ops.amin(input, dim, keepdim), ops.amax(input, dim, keepdim))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, ``(count, r)``, in order; nothing of 0 elements.

    Raises:
        ArgumentError: if ``r`` is below 0.
        ShapeError: if it is no vector.
    """
    if input.ndim != 1:
        raise ShapeError("combinations", "input is a vector", input=input.shape)
    if r < 0:
        raise ArgumentError("combinations", "r is 0 or more", r=r)
    if r == 0:
        return input.new_empty(0)
    size = input.numel()
    listed = np.arange(size)[:, None]
    for _ in range(r - 1):
        # Each row so often as numbers may come behind its last one.
        first = listed[:, -1] + (not with_replacement)
        rows = np.repeat(np.arange(len(listed)), size - first)
        ends = np.cumsum(size - first)
        behind = np.arange(len(rows)) - (ends - size)[rows]
        listed = np.column_stack([listed[rows], behind])
    picked = ops.index_select(input, 0, tensor(listed.reshape(-1), device=input.device))
    return picked.reshape(listed.shape)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with elements of any value, whose axes lie in memory in another order.

    Raises:
        ArgumentError: if the order does not name each axis once.
    """
    if sorted(physical_layout) != list(range(len(size))):
        law = "physical_layout names each axis once, from 0 on"
        raise ArgumentError("empty_permuted", law, size=size, physical_layout=physical_layout)
    laid = empty(*(size[axis] for axis in physical_layout), dtype=dtype, device=device)
    order = [list(physical_layout).index(axis) for axis in range(len(size))]
    return laid.permute(order).requires_grad_(requires_grad)


def float_power(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent`` in float64, or in complex128 if one of them is complex."""
    wide = complex128 if any(map(_is_complex, (input, exponent))) else float64
    x, y = (
        v.to(wide) if isinstance(v, Tensor) else _wide("float_power", name, v)
        for name, v in (("input", input), ("exponent", exponent))
    )
    if wide is complex128:
        x, y = (v if isinstance(v, Tensor) else tensor(v, dtype=wide) for v in (x, y))
    return ops.pow(x, y)


def _is_complex(value: Any) -> bool:
    return value.is_complex() if isinstance(value, Tensor) else isinstance(value, complex)


def _wide(op: str, name: str, value: Any) -> complex:
    return value if isinstance(value, complex) else float(number(op, name, value))


def frombuffer(
    buffer: Any,
    *,
    dtype: DType,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of the numbers in a buffer of bytes; a copy."""
    try:
        host = np.frombuffer(buffer, dtype=as_dtype(dtype).numpy, count=count, offset=offset)
    except (TypeError, ValueError) as error:
        law = f"the buffer holds the bytes of whole elements: {error}"
        raise ArgumentError("frombuffer", law, buffer=shown(buffer), count=count) from None
    return tensor(host.copy(), dtype=dtype, requires_grad=requires_grad)


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """``input`` with slices reduced with those of ``source``: prod, mean, amax or amin."""
    axis = normalize_dim("index_reduce", dim, input.ndim)
    shape = [-1 if k == axis else 1 for k in range(input.ndim)]
    places = index.reshape(shape).expand(source.shape)
    return ops.scatter_reduce(input, dim, places, source, reduce, include_self=include_self)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` places of elements that are not 0, ``(size, ndim)``, filled up."""
    found = ops.nonzero(input)[:size]
    rest = empty(size - found.shape[0], input.ndim, dtype=int64, device=input.device)
    return ops.cat([found, rest.fill_(fill_value)])


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """The maxima of ``F.adaptive_max_pool1d`` and where they were: always both, as PyTorch's."""
    return ops.adaptive_max_pool1d(input, output_size, return_indices=True)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along an axis scaled down to a norm of at most ``maxnorm``."""
    if input.ndim < 2:
        raise ShapeError("renorm", "the input has two axes or more", input=input.shape)
    if not p > 0:
        raise ArgumentError("renorm", "p is above 0", p=p)
    if not maxnorm >= 0:
        raise ArgumentError("renorm", "maxnorm is 0 or more", maxnorm=maxnorm)
    if maxnorm == inf:  # whose part in the factor's slope would be infinity times 0
        return input * 1
    axis = normalize_dim("renorm", dim, input.ndim)
    others = [k for k in range(input.ndim) if k != axis]
    norm = ops.norm(input, p, dim=others, keepdim=True)
    return input * evaluate("renorm", _factor, [norm], [maxnorm])


def _factor(norm: Any, most: Any) -> Any:
    return e.where(norm > most, most / (norm + 1e-7), 1)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Places in a shape, one tensor for each axis, of places in its elements in order."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype.differentiable:
        raise DtypeError("unravel_index", "places are whole numbers", dtype=indices.dtype)
    if min(sizes, default=0) < 0:
        raise ArgumentError("unravel_index", "sizes are 0 or more", shape=sizes)
    steps = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    pairs = zip(steps, sizes, strict=True)
    places: Any = indices.to(int64)
    return tuple(places // n % size for n, size in pairs)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """Powers of the elements of a vector, ``(len, N)``, the highest first; whole ones are int64."""
    if x.ndim != 1:
        raise ShapeError("vander", "x is (n,)", x=x.shape)
    x = x if x.dtype.differentiable else x.to(int64)
    count = x.numel() if N is None else N
    powers = arange(count, dtype=x.dtype, device=x.device)
    found = x.reshape(-1, 1) ** powers
    return found if increasing else found.flip(1)


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of :func:`narrow`."""
    return ops.clone(ops.narrow(self, dim, start, length))


def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """:func:`empty_strided` of its dtype on its device."""
    where = self.device if device is None else device
    made = empty_strided(size, stride, dtype=dtype or self.dtype, device=where)
    return made.requires_grad_(requires_grad)


def record_stream(self: Tensor, stream: Any) -> None:
    """Taken: work is done in the order in which it was asked for.

    Raises:
        DtypeError: if the stream is none.
    """
    if not hasattr(stream, "synchronize"):
        raise DtypeError("record_stream", "stream is a stream", stream=shown(stream))


_OWN = (
    *(adaptive_max_pool1d, aminmax, as_strided, as_strided_scatter, bartlett_window),
    *(blackman_window, combinations, empty_permuted, float_power, frombuffer, histogram),
    *(histogramdd, index_reduce, kaiser_window, nonzero_static, renorm, unravel_index, vander),
)
_ALSO = (
    *("conv2d", "conv_transpose2d", "batch_norm", "instance_norm", "embedding", "kl_div"),
    *("embedding_bag", "poisson_nll_loss", "triplet_margin_loss", "margin_ranking_loss"),
    *("hinge_embedding_loss", "cosine_embedding_loss", "binary_cross_entropy_with_logits"),
    *("threshold_", "selu_", "celu_", "rrelu_"),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: checked(f) for f in _OWN},
    **{n: PUBLIC_OPS[n][0] for n in _ALSO if Face.FUNCTION not in PUBLIC_OPS[n][1]},
    "trapz": PUBLIC_OPS["trapezoid"][0],
    "unsafe_chunk": PUBLIC_OPS["chunk"][0],
    "unsafe_split": PUBLIC_OPS["split"][0],
    "unsafe_split_with_sizes": PUBLIC_OPS["split_with_sizes"][0],
}
"""Functions of ``clnet`` that no op declares."""
_METHODS = (
    *("aminmax", "as_strided", "float_power", "histogram", "index_reduce", "nonzero_static"),
    *("renorm", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "as_strided_scatter"),
)
_OVERWRITING = """
    addbmm addmm addmv addr baddbmm arccos arccosh arcsin arcsinh arctan arctan2 arctanh cumprod
    cumsum deg2rad rad2deg eq ge gt le lt ne greater greater_equal less less_equal not_equal erfinv
    fix sgn sinc heaviside ldexp float_power renorm index_reduce put lgamma digamma
    mvlgamma
""".split()
_METHODS_ALONE = (
    *(as_strided_, cauchy_, exponential_, geometric_, log_normal_, narrow_copy, new_empty_strided),
)
for _function in _METHODS_ALONE:
    setattr(Tensor, _function.__name__, checked(_function, skip=1))
Tensor.record_stream = record_stream
for _name in _METHODS:
    setattr(Tensor, _name, FUNCTIONS[_name])
for _name in _OVERWRITING:
    _function = FUNCTIONS.get(_name) or PUBLIC_OPS[_name][0]
    if not hasattr(Tensor, f"{_name}_"):
        setattr(Tensor, f"{_name}_", overwriting(_name, _function))
