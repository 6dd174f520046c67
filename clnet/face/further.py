"""Functions and methods that are a line or three of others: twins in place, windows, odd shapes."""

# ruff: noqa: A002, FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, pi, prod
from typing import Any

import numpy as np

from .. import expr as e
from .. import ops
from ..creation import arange, empty, linspace
from ..errors import ArgumentError, DtypeError, ShapeError
from ..ops.machinery.function import PUBLIC_OPS, Face
from ..ops.machinery.pointwise import evaluate
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import DType, as_dtype, complex128, default_float, float32, float64, int64
from ..values.generator import Generator
from ..values.plain import number, shown
from ..values.record import NamedTuple
from ..values.shapes import normalize_dim
from .attribute import empty_strided
from .strided import as_strided, as_strided_, as_strided_scatter

__all__ = ["FUNCTIONS", "METHODS"]


class MinMax(NamedTuple):
    """What :func:`aminmax` gives."""

    min: Tensor
    max: Tensor


class Histogram(NamedTuple):
    """What :func:`histogram` gives."""

    hist: Tensor
    bin_edges: Tensor


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The least and the largest element, of all or along an axis."""
    if dim is None:
        shape = (1,) * input.ndim if keepdim else ()
        return MinMax(ops.amin(input).reshape(shape), ops.amax(input).reshape(shape))
    return MinMax(ops.amin(input, dim, keepdim), ops.amax(input, dim, keepdim))


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |2 i / n - 1|``; arguments as :func:`hann_window`'s."""
    i, n = _window("bartlett_window", window_length, periodic)
    return _made(1 - np.abs(2 * i / n - 1), dtype, device, requires_grad)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window; arguments as :func:`hann_window`'s."""
    i, n = _window("blackman_window", window_length, periodic)
    values = 0.42 - 0.5 * np.cos(2 * pi * i / n) + 0.08 * np.cos(4 * pi * i / n)
    return _made(values, dtype, device, requires_grad)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window of a shape ``beta``; else as :func:`hann_window`."""
    i, n = _window("kaiser_window", window_length, periodic)
    inside = np.sqrt(np.maximum(0, 1 - (2 * i / n - 1) ** 2))
    return _made(np.i0(beta * inside) / np.i0(beta), dtype, device, requires_grad)


def _window(op: str, length: int, periodic: bool) -> tuple[np.ndarray, float]:
    if length < 0:
        raise ArgumentError(op, "window_length is 0 or more", window_length=length)
    n = length if periodic else length - 1
    return (np.arange(length, dtype=np.float64), n) if length != 1 else (np.ones(1), 2.0)


def _made(values: np.ndarray, dtype: DType | None, device: Any, requires_grad: bool) -> Tensor:
    return tensor(
        values, dtype=dtype or default_float(), device=device, requires_grad=requires_grad
    )


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


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How many elements (or what weight) lie in each interval, and the intervals' ends.

    Args:
        input: any shape.
        bins: how many intervals of one width, or their ends, ascending.
        range: the lowest and highest end; None: the least and largest element.
        weight: of each element, else 1.
        density: divide by the sum and the intervals' widths.

    Raises:
        ArgumentError: if there is no interval, or the range is not finite or descends.
    """
    edges = bins if isinstance(bins, Tensor) else _edges(input, bins, range)
    count, flat = edges.numel() - 1, input.reshape(-1)
    places = ops.bucketize(flat, edges, right=True) - 1
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    weights = ops.ones_like(flat) if weight is None else weight.reshape(-1)
    weights = ops.where(inside, weights, 0.0)
    found = empty(count, dtype=weights.dtype, device=input.device).zero_()
    found = found.index_add(0, places.clamp(0, count - 1), weights)
    return Histogram(found / (found.sum() * edges.diff()) if density else found, edges)


def _edges(input: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    """The ends of intervals of one width."""
    if bins < 1:
        raise ArgumentError("histogram", "there is one interval or more", bins=bins)
    if range is not None:
        low, high = range
    else:
        low, high = (0.0, 1.0) if not input.numel() else (input.min().item(), input.max().item())
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise ArgumentError("histogram", "a range is finite and ascends", low=low, high=high)
    low, high = (low, high) if low != high else (low - 0.5, high + 0.5)
    return linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)


class HistogramOfPoints(NamedTuple):
    """What :func:`histogramdd` gives."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def histogramdd(
    input: Tensor,
    bins: int | Sequence[Any],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramOfPoints:
    """How many points lie in each cell of a grid, and the ends of its intervals.

    Args:
        input: points ``(..., axes)``.
        bins: how many intervals each axis has, one number for all, or their ends for each axis.
        range: the lowest and highest end of each axis, one after another; None: the least and
            largest coordinates.
        weight: of each point, else 1.
        density: divide by the sum and the cells' volumes.

    Returns:
        ``(bins of the first axis, ...)``, and the ends for each axis.

    Raises:
        ArgumentError: if there are not bins and ranges for each axis, or no axis of points.
    """
    if input.ndim < 2:
        law = "points have an axis of coordinates, and one before it"
        raise ArgumentError("histogramdd", law, shape=input.shape)
    axes = input.shape[-1]
    points = input.reshape(-1, axes)
    every = [bins] * axes if isinstance(bins, int) else list(bins)
    if len(every) != axes or (range is not None and len(range) != 2 * axes):
        law = "there are bins for each axis, and two ends of a range"
        raise ArgumentError("histogramdd", law, bins=shown(bins), range=range, axes=axes)
    if any(isinstance(n, int) and n < 1 for n in every):
        raise ArgumentError("histogramdd", "an axis has one interval or more", bins=shown(bins))
    edges: list[Tensor] = []
    place: Any = None
    inside: Any = None
    for axis, wanted in enumerate(every):
        ends = None if range is None else range[2 * axis : 2 * axis + 2]
        column = points[:, axis].contiguous()
        found = histogram(column, wanted, range=ends).bin_edges
        last = found.numel() - 1
        at = (ops.bucketize(column, found, right=True) - 1).clamp(0, last - 1)
        fits = (column >= found[0]) & (column <= found[-1])
        place = at if place is None else place * last + at
        inside = fits if inside is None else inside & fits
        edges.append(found)
    shape = [e.numel() - 1 for e in edges]
    weights = ops.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    counted = empty(prod(shape), dtype=weights.dtype, device=input.device).zero_()
    counted = counted.index_add(
        0, ops.where(inside, place, 0), ops.where(inside, weights, 0.0)
    ).reshape(shape)
    if density:
        counted = counted / counted.sum()
        for axis, found in enumerate(edges):
            counted = counted / found.diff().reshape(
                [-1 if k == axis else 1 for k in np.arange(axes)]
            )
    return HistogramOfPoints(counted, tuple(edges))


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
    shape = [-1 if k == axis else 1 for k in np.arange(input.ndim)]
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
    others = [k for k in np.arange(input.ndim).tolist() if k != axis]
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
    steps = [prod(sizes[k + 1 :]) for k in np.arange(len(sizes)).tolist()]
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


_OWN = (
    *(
        adaptive_max_pool1d,
        aminmax,
        as_strided,
        bartlett_window,
        blackman_window,
        kaiser_window,
        combinations,
    ),
    *(empty_permuted, float_power, frombuffer, histogram, histogramdd),
    *(index_reduce,),
    *(nonzero_static, renorm, unravel_index, vander, as_strided_scatter),
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

METHODS = (
    *("aminmax", "as_strided", "float_power", "histogram", "index_reduce", "nonzero_static"),
    *("renorm", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "as_strided_scatter"),
)
"""Those that are methods, too."""
IN_PLACE = """
    addbmm addmm addmv addr baddbmm arccos arccosh arcsin arcsinh arctan arctan2 arctanh cumprod
    cumsum deg2rad rad2deg eq ge gt le lt ne greater greater_equal less less_equal not_equal erfinv
    fix sgn sinc heaviside ldexp float_power renorm index_reduce put lgamma digamma
    mvlgamma
""".split()
"""Ops whose results overwrite their tensor, in two passes."""


def _overwriting(name: str) -> Callable[..., Tensor]:
    function = FUNCTIONS[name] if name in FUNCTIONS else PUBLIC_OPS[name][0]

    def overwrite(x: Tensor, *args: Any, **given: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise DtypeError(f"{name}_", "what is overwritten is a tensor", type=type(x).__name__)
        # What backward reads must not be what is overwritten.
        if name == "float_power" and x.dtype not in (float64, complex128):
            law = "the result is float64 or complex128, and so is what it overwrites"
            raise DtypeError("float_power_", law, x=x.dtype, remedy="Use pow_, or x.double()")
        recorded = x.requires_grad and mode.current().grad
        result = function(ops.clone(x) if recorded else x, *args, **given)
        if result.shape != x.shape:
            law = "what is overwritten has the result's shape"
            raise ShapeError(f"{name}_", law, x=x.shape, result=result.shape)
        if result.dtype.kind > x.dtype.kind:
            law = "the result does not fit the dtype of what is overwritten"
            raise DtypeError(f"{name}_", law, x=x.dtype, result=result.dtype)
        return x.copy_(result)

    overwrite.__name__ = overwrite.__qualname__ = f"{name}_"
    overwrite.__doc__ = f"Overwrite ``x`` with its :func:`{name}`; returns ``x``."
    overwrite.__door__ = getattr(function, "__door__", None)  # pyrefly: ignore[missing-attribute] - for who looks at it
    return overwrite


def _uniform(x: Tensor, generator: Generator | None) -> Tensor:
    """Numbers in ``(0, 1)``: the least step stands for 0, which has no logarithm."""
    drawn = ops.uniform_(ops.empty_like(x.detach()), generator=generator)
    return ops.clamp(drawn, min=2.0 ** (-53 if x.dtype.itemsize == 8 else -24))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers of density ``lambd exp(-lambd x)``."""
    if lambd <= 0:
        raise ArgumentError("exponential_", "lambd is above 0", lambd=lambd)
    return self.copy_(-ops.log(_uniform(self, generator)) / lambd)


def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with numbers whose logarithm is normal, of that mean and deviation."""
    if not std > 0:
        raise ArgumentError("log_normal_", "std is above 0", std=std)
    drawn = ops.normal_(ops.empty_like(self.detach()), generator=generator)
    return self.copy_(ops.exp(drawn * std + mean))


def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with numbers of Cauchy's density."""
    if not sigma > 0:
        raise ArgumentError("cauchy_", "sigma is above 0", sigma=sigma)
    return self.copy_(ops.tan((_uniform(self, generator) - 0.5) * pi) * sigma + median)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with how many trials it takes to the first success of probability ``p``."""
    if not 0 < p < 1:
        raise ArgumentError("geometric_", "p lies between 0 and 1", p=p)
    like = ops.empty_like(self.detach(), dtype=float32)
    drawn = ops.log(_uniform(like, generator)) / float(np.log1p(-p))
    return self.copy_(ops.ceil(drawn).clamp(min=1))


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


_METHODS = (exponential_, log_normal_, cauchy_, geometric_, narrow_copy, new_empty_strided)
for _function in (*_METHODS, as_strided_):
    setattr(Tensor, _function.__name__, checked(_function, skip=1))
Tensor.record_stream = record_stream
for _name in METHODS:
    setattr(Tensor, _name, FUNCTIONS[_name])
for _name in IN_PLACE:
    if (_name in FUNCTIONS or _name in PUBLIC_OPS) and not hasattr(Tensor, f"{_name}_"):
        setattr(Tensor, f"{_name}_", _overwriting(_name))
