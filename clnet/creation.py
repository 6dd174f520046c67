"""Tensors of ranges and the identity, and from what the host holds, in PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil, isfinite, pi, trunc
from typing import Any

import numpy as np

from .device import Device, current_device
from .device import device as open_device
from .errors import ArgumentError, DtypeError, ShapeError
from .expr import where
from .ops.arithmetic import Number
from .ops.arithmetic import where as select
from .ops.complex_parts import complex_of
from .ops.create import Arange, Eye, held, made, uninitialized
from .ops.machinery.pointwise import evaluate
from .ops.shape import sizes_of, to_dtype
from .tensor import Tensor, full, tensor
from .values import mode
from .values.arguments import checked
from .values.dtypes import DType, Kind, default_float, float32, float64, from_name, int64, of_scalar

__all__ = [
    "abstract",
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "eye",
    "from_numpy",
    "hamming_window",
    "hann_window",
    "linspace",
    "logspace",
    "ones",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
]


@contextmanager
def abstract() -> Iterator[None]:
    """Ops in the block only infer shapes and dtypes, and the tensors they make take no memory.

    A model built in it costs nothing, however large; its parameters can be counted, and get memory
    when a state is loaded into them.

    Example:
        >>> import clnet
        >>> with clnet.abstract():
        ...     x = clnet.nn.Linear(10**5, 10**5)(clnet.zeros(7, 10**5))
        >>> x.shape
        (7, 100000)
    """
    with mode.using(abstract=True):
        yield


@checked
def zeros(
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of a shape, given as numbers or as one sequence."""
    return full(
        sizes_of("zeros", sizes, size),
        0,
        dtype=dtype or default_float(),
        device=device,
        requires_grad=requires_grad,
    )


@checked
def ones(
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of a shape, given as numbers or as one sequence."""
    return full(
        sizes_of("ones", sizes, size),
        1,
        dtype=dtype or default_float(),
        device=device,
        requires_grad=requires_grad,
    )


@checked
def empty(
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape with elements of any value."""
    target = current_device() if device is None else open_device(device)
    made = uninitialized(Tensor, sizes_of("empty", sizes, size), dtype or default_float(), target)
    return made.requires_grad_(requires_grad)


@checked
def arange(
    start: float | None = None,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` on, ``step`` apart, below ``end``; ``arange(end)`` starts at 0.

    Args:
        start: the first; None: 0.
        end: not reached; None: ``start`` is the end, and the first is 0.
        step: from one to the next; may be negative.
        dtype: the element type; None: int64 if all three are whole, else the default.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        ``(ceil((end - start) / step),)``.

    Raises:
        ArgumentError: if the step is 0 or leads away from the end.

    Example:
        >>> import clnet
        >>> clnet.arange(1, 2.5, 0.5).tolist()
        [1.0, 1.5, 2.0]
    """
    given = [n for n in (start, end) if n is not None]
    if not given:
        raise ArgumentError("arange", "an end is given", start=start, end=end)
    first, last = given if len(given) == 2 else (0, given[0])
    if not all(map(isfinite, (first, last, step))):
        raise ArgumentError("arange", "the ends are finite", start=first, end=last, step=step)
    if step == 0 or (last - first) * step < 0:
        law = "the step leads from start to end"
        raise ArgumentError("arange", law, start=first, end=last, step=step)
    whole = all(of_scalar(n).kind is not Kind.FLOATING for n in (first, last, step))
    parts = 0 if whole else (last - first) / step
    if not isfinite(parts):
        raise ArgumentError("arange", "steps are not so small", start=start, end=end, step=step)
    count = -((first - last) // step) if whole else ceil(parts)
    kind = dtype or (int64 if whole else default_float())
    if not whole and not kind.is_floating_point:  # each is cut to a whole number, as in PyTorch
        if kind is int64:  # before they are counted
            return arange(
                int(first), int(last), int(step), dtype=kind, device=device,
                requires_grad=requires_grad,
            )  # fmt: skip
        first, step = int(first), int(step)
    x = _arange(int(count), first, step, kind, _target(device))
    return x.requires_grad_(requires_grad)


@checked
def linspace(
    start: Number,
    end: Number,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Evenly spaced numbers from ``start`` to ``end``, both among them.

    Args:
        start: the first, a complex number, too.
        end: the last, likewise.
        steps: how many.
        dtype: the element type; None: :func:`clnet.get_default_dtype`, or complex numbers of it.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        ``(steps,)``, computed from the nearer end.

    Raises:
        ArgumentError: if ``steps`` is negative.
        DtypeError: if an end is complex, and ``dtype`` is not.
    """
    if steps < 0:
        raise ArgumentError("linspace", "steps is 0 or more", steps=steps)
    if isinstance(start, complex) or isinstance(end, complex):
        return _complex_linspace(complex(start), complex(end), steps, dtype, device).requires_grad_(
            requires_grad
        )
    kind = dtype or default_float()
    start, end = _ends("linspace", kind, start, end)
    compute = _computing(kind, device)
    position = _arange(steps, 0, 1, compute, _target(device))
    settings = (start, end, (end - start) / max(steps - 1, 1), steps // 2, steps - 1)
    x = evaluate("linspace", _from_nearer_end, [position], [float(n) for n in settings])
    if steps == 1:
        x = full((1,), start, dtype=compute, device=x.device)
    return to_dtype(x, kind).requires_grad_(requires_grad)


def _ends(name: str, kind: DType, *ends: Any) -> list[Any]:
    """The ends as numbers of the dtype: of whole ones the broken part is cut first."""
    if kind.kind is not Kind.INTEGER or any(isinstance(end, complex) for end in ends):
        return list(ends)
    return [held(name, trunc(end) if isfinite(end) else end, kind) for end in ends]


def _computing(kind: DType, device: Any) -> DType:
    """The floating dtype that numbers of a dtype are computed in; of whole numbers the widest."""
    if kind.is_floating_point:
        return from_name(kind.compute)
    return float64 if _target(device).traits.float64 else float32


def _complex_linspace(
    start: complex, end: complex, steps: int, dtype: DType | None, device: Any
) -> Tensor:
    if dtype is not None and not dtype.is_complex:
        raise DtypeError("linspace", "of complex ends numbers are complex", dtype=dtype)
    part = default_float() if dtype is None else dtype.real
    parts = zip((start.real, start.imag), (end.real, end.imag), strict=True)
    found = (linspace(a, b, steps, dtype=part, device=device) for a, b in parts)
    return complex_of(*found)


def _from_nearer_end(i: Any, start: Any, end: Any, step: Any, half: Any, last: Any) -> Any:
    return where(i < half, start + step * i, end - step * (last - i))


@checked
def logspace(
    start: Number,
    end: Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers that :func:`linspace` gives; further arguments as there.

    Whole numbers are powers of broken ones, cut at the end.
    """
    whole = None if dtype is None or dtype.differentiable else dtype
    compute = dtype if whole is None else _computing(whole, device)
    if whole is not None:
        start, end = _ends("logspace", whole, start, end)
    exponents = linspace(start, end, steps, dtype=compute, device=device)
    x = full((), base, dtype=exponents.dtype, device=exponents.device).pow(exponents)
    if whole is not None:  # what rounding alone keeps from a whole number is that
        nearest, least = x.round(), 1e-12 if compute is float64 else 1e-6
        x = to_dtype(select((x - nearest).abs() <= least * nearest.abs(), nearest, x), whole)
    return x.requires_grad_(requires_grad)


@checked
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity: 1 on the main diagonal of ``n`` rows and ``m`` columns, else 0.

    None stands for as many columns; the other arguments are those of :func:`linspace`.

    Raises:
        ShapeError: if a size is negative.
    """
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise ShapeError("eye", "sizes are 0 or more", n=n, m=columns)
    x = made(Tensor, Eye(n, columns, dtype or default_float(), _target(device)))
    return x.requires_grad_(requires_grad)


@checked
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` itself if it is a tensor of that dtype on that device, else as :func:`tensor`.

    Args:
        data: as :func:`clnet.tensor` takes it.
        dtype: the element type; None: the data's.
        device: as :func:`clnet.device` takes it; None: the tensor's, or the current one.

    Returns:
        The tensor; one that is only converted stays on the tape.
    """
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


@checked
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor with a copy of a NumPy array (PyTorch's shares its memory, a device cannot)."""
    if not isinstance(ndarray, np.ndarray):
        raise ArgumentError("from_numpy", "it takes a NumPy array", type=type(ndarray).__name__)
    return tensor(ndarray)


@checked
def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a tensor without axes, the default dtype if none is given."""
    found = full((), s, dtype=dtype or default_float(), device=device)
    return found.requires_grad_() if requires_grad else found


@checked
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of data; a tensor itself where that is enough and no copy is asked for.

    Args:
        obj: as :func:`clnet.tensor` takes it.
        dtype: the element type; None: the data's.
        device: as :func:`clnet.device` takes it.
        copy: True: always a copy; False: never one.
        requires_grad: whether gradients flow to it; None: where they flow to a tensor given.

    Raises:
        ArgumentError: if ``copy`` is False and one is needed.
    """
    try:
        x = as_tensor(obj, dtype=dtype, device=device)
    except DtypeError as error:
        raise DtypeError("asarray", error.law, remedy=error.remedy, **error.values) from None
    if copy is False and x is not obj:
        law, hint = "a device's memory is its own: data are copied", "Leave copy out"
        raise ArgumentError("asarray", law, type=type(obj).__name__, remedy=hint)
    if copy and x is obj:
        x = x.clone()
    if requires_grad is None or requires_grad == x.requires_grad:
        return x
    return x.detach().requires_grad_(requires_grad)


@checked
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Rows and columns of a lower triangle's elements, ``(2, count)``, in row-major order.

    Args:
        row: rows of the matrix.
        col: its columns.
        offset: how many diagonals above the main one belong to it.
        dtype: the element type; None: int64.
        device: as :func:`clnet.device` takes it; None: the current one.

    Raises:
        ShapeError: if a size is below 0.
    """
    _check_sizes("tril_indices", row, col, device)
    found = np.array(np.tril_indices(row, offset, col))
    return tensor(found, dtype=dtype or int64, device=device)


@checked
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """As :func:`tril_indices`, of the upper triangle from a diagonal on."""
    _check_sizes("triu_indices", row, col, device)
    found = np.array(np.triu_indices(row, offset, col))
    return tensor(found, dtype=dtype or int64, device=device)


def _check_sizes(op_name: str, row: int, col: int, device: Any) -> None:
    if row < 0 or col < 0:
        raise ShapeError(op_name, "sizes are 0 or more", row=row, col=col)
    most = _target(device).traits.global_memory_bytes // 16
    if row * col > most:  # the host makes a mask of all, and two numbers of what it leaves
        raise ArgumentError(op_name, f"the matrix has at most {most} elements", row=row, col=col)


@checked
def hann_window(
    window_length: int,
    periodic: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.5 - 0.5 cos(2 pi i / n)``: Hann's window, ``(window_length,)``.

    If it is ``periodic``, ``n`` is the length, else one less, so that both ends are alike. The
    other arguments are those of :func:`linspace`.
    """
    return hamming_window(
        window_length, periodic, 0.5, 0.5, dtype=dtype, device=device, requires_grad=requires_grad
    )


@checked
def hamming_window(
    window_length: int,
    periodic: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - beta cos(2 pi i / n)``: Hamming's window; else as :func:`hann_window`."""
    kind = window_dtype("hamming_window", dtype)
    if window_length < 0:
        law = "window_length is 0 or more"
        raise ArgumentError("hamming_window", law, window_length=window_length)
    if window_length == 1:
        return full((1,), 1, dtype=kind, device=device, requires_grad=requires_grad)
    n = window_length if periodic else window_length - 1
    angle = arange(window_length, dtype=kind, device=device) * (2 * pi / n if n else 0.0)
    return (alpha - beta * angle.cos()).requires_grad_(requires_grad)


def window_dtype(op_name: str, dtype: DType | None) -> DType:
    """The floating dtype of a window; None: the default one.

    Raises:
        DtypeError: if it is no floating one.
    """
    if dtype is not None and not dtype.is_floating_point:
        hint = "Convert the window with .to(dtype)"
        raise DtypeError(op_name, "a window is floating", dtype=dtype, remedy=hint)
    return dtype or default_float()


def _arange(count: int, start: float, step: float, dtype: DType, device: Device) -> Tensor:
    compute = from_name(dtype.compute)
    return to_dtype(made(Tensor, Arange(count, start, step, compute, device)), dtype)


def _target(device: Any) -> Device:
    return current_device() if device is None else open_device(device)
