"""Padding: by a constant, or by what lies inside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..expr import Scalar
from ..kernels import moving as kernels
from ..kernels.pointwise import pointwise as launch_pointwise
from ..values.dtypes import from_name
from ..values.shapes import Shape
from .arithmetic import Number
from .axis_map import Table, map_axis
from .complex_parts import complex_of, imag, real
from .copying import copy_launches
from .create import held
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .shape import Slice, contiguous, fresh, narrow, slice_view

if TYPE_CHECKING:
    from ..tensor import Tensor

_MODES = ("constant", "reflect", "replicate", "circular")


class ConstantPad(Function):
    """A dense array of ``shape`` and one value, with the input from ``starts`` on."""

    starts: tuple[int, ...]
    shape: Shape
    value: float
    op_name = "pad"
    repeats = True

    @property
    def repeat_key(self) -> Any:
        """With the sign of a zero."""
        return self.starts, self.shape, repr(self.value)

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, x.dtype, x.device),)

    def of_complex(self, x: Tensor) -> Any:
        """Parts padded with those of the value."""
        value = complex(self.value)
        parts = (real(x), value.real), (imag(x), value.imag)
        return complex_of(*(apply(ConstantPad(self.starts, self.shape, v), y) for y, v in parts))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch on CPUs; else, and for small arrays, fill, then copy into the middle."""
        (y,), (x,) = outputs, inputs
        compute = from_name(x.dtype.compute)
        value = self.value if x.dtype.is_floating_point else int(self.value)  # bool is held as one
        at_once = kernels.place(target, y, x, x.shape, x.strides, starts=self.starts, value=value)
        if at_once:
            return at_once
        fill = launch_pointwise(target, [y], (), (Scalar(0),), scalars=(value,), compute=compute)
        place = slice_view(y, self.starts, (1,) * x.ndim, x.shape)
        return fill + copy_launches(target, place, x)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The middle of the gradient."""
        shape = saved.input_specs[0][0]
        return (apply(Slice(self.starts, (1,) * len(shape), shape), grads[0]),)


@op(Face.FUNCTIONAL)
def pad(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None
) -> Tensor:
    """More elements (or, where a number is negative, fewer) at the ends of the last axes.

    Args:
        x: any shape.
        pad: ``(before, after)`` of the last axis, then of the one before it, and so on.
        mode: ``"constant"``; ``"reflect"``, mirrored at the outermost element; ``"replicate"``,
            the outermost element; ``"circular"``, from the other end (of what negative numbers
            leave).
        value: the constant, of a complex ``x`` a complex one, too; None: 0.

    Returns:
        ``x`` with longer axes.

    Raises:
        ArgumentError: if there is no such mode, a value is given where none is used, or ``pad`` is
            odd or longer than ``x`` has axes.
        DtypeError: if the value is complex, and ``x`` is not.
        ShapeError: if an axis has too few elements for the mode, or fewer than none would be left.

    Example:
        >>> import clnet
        >>> clnet.nn.functional.pad(clnet.ones(2, 3), (1, 1), value=0.5).shape
        (2, 5)
    """
    pads = tuple(int(p) for p in pad)
    if mode not in _MODES:
        raise ArgumentError("pad", f"mode is one of {', '.join(_MODES)}", mode=repr(mode))
    if value and mode != "constant":
        raise ArgumentError(
            "pad", "only mode 'constant' has a value but 0", mode=repr(mode), value=value
        )
    if len(pads) % 2 or len(pads) > 2 * x.ndim:
        raise ArgumentError(
            "pad", "there are two numbers for each padded axis", pad=pads, x=x.shape
        )
    ends = {x.ndim - 1 - i // 2: pads[i : i + 2] for i in range(0, len(pads), 2)}
    if mode == "constant":
        if isinstance(value, complex) and not x.dtype.is_complex:
            raise DtypeError("pad", "of a real x the value is real", value=value, x=x.dtype)
        given: Any = 0.0 if value is None else value
        given = given if x.dtype.is_complex else float(given)
        return fresh(_constant(x, ends, held("pad", given, x.dtype)), x)
    if x.dtype.is_complex:
        return complex_of(*(_around(part, ends, mode) for part in (real(x), imag(x))))
    return fresh(_around(x, ends, mode), x)


class AroundPad(Function):
    """A dense array of ``shape`` with the input from ``starts`` on, and elements of its own."""

    starts: tuple[int, ...]
    shape: Shape
    mode: str
    op_name = "pad"
    repeats = True

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        return [kernels.around(target, outputs[0], inputs[0], starts=self.starts, mode=self.mode)]

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each axis adds up what its elements became."""
        g, before = grads[0], saved.input_specs[0][0]
        for axis, (size, n) in enumerate(zip(before, self.shape, strict=True)):
            start = self.starts[axis]
            if (size, 0) != (n, start):
                table = _inside(size, start, n - size - start, self.mode)
                g = map_axis("pad_backward", g, axis, table.transposed)
        return (g,)


def _around(x: Tensor, ends: dict[int, tuple[int, ...]], mode: str) -> Tensor:
    """Padded by elements of its own."""
    y = x
    if mode == "circular":  # of what is left: PyTorch crops first
        cropped = {axis: tuple(min(end, 0) for end in both) for axis, both in ends.items()}
        y = _constant(x, cropped, 0.0)
        ends = {axis: tuple(max(end, 0) for end in both) for axis, both in ends.items()}
    starts = tuple(ends.get(axis, (0, 0))[0] for axis in range(x.ndim))
    shape = tuple(n + sum(ends.get(axis, (0, 0))) for axis, n in enumerate(y.shape))
    if kernels.around_fits(x.device.traits, y.shape, shape, y.dtype.itemsize):
        for axis, (before, after) in ends.items():
            _check_end(y, axis, before, after, mode)
        return y if shape == y.shape else apply(AroundPad(starts, shape, mode), contiguous(y))
    for axis, (before, after) in ends.items():
        if before or after:
            rows = max(y.numel() // max(y.shape[axis], 1), 1)  # before the host lays out the axis
            wide = rows * (y.shape[axis] + before + after)
            y.device.pool.check(max(wide, 0) * y.dtype.itemsize)
            _check_end(y, axis, before, after, mode)
            y = map_axis("pad", y, axis, _inside(y.shape[axis], before, after, mode))
    return y


def _constant(x: Tensor, ends: dict[int, tuple[int, ...]], value: float) -> Tensor:
    for axis, (before, after) in ends.items():
        length = x.shape[axis] + min(before, 0) + min(after, 0)
        if length < 0:
            raise ShapeError("pad", "an axis keeps 0 elements or more", x=x.shape, axis=axis)
        if length < x.shape[axis]:
            x = narrow(x, axis, max(-before, 0), length)
    starts = tuple(max(ends.get(axis, (0, 0))[0], 0) for axis in range(x.ndim))
    shape = tuple(
        n + sum(max(end, 0) for end in ends.get(axis, (0, 0))) for axis, n in enumerate(x.shape)
    )
    return x if shape == x.shape else apply(ConstantPad(starts, shape, value), x)


def _check_end(x: Tensor, axis: int, before: int, after: int, mode: str) -> None:
    size = x.shape[axis]
    most = {"reflect": size - 1, "circular": size}.get(mode)
    if size == 0 or (most is not None and max(before, after) > most):
        bound = "elements of the axis" + (" but one" if mode == "reflect" else "")
        raise ShapeError(
            "pad", f"mode {mode!r} pads by at most the {bound}", x=x.shape, axis=axis,
            pad=(before, after),
        )  # fmt: skip
    least = 0 if mode == "circular" else 1
    if size + before + after < least:
        law = f"an axis keeps {least} elements or more"
        raise ShapeError("pad", law, x=x.shape, axis=axis, pad=(before, after))


@lru_cache(maxsize=256)
def _inside(size: int, before: int, after: int, mode: str) -> Table:
    at = np.arange(-before, size + after)
    if mode == "replicate":
        at = at.clip(0, size - 1)
    elif mode == "circular":
        at = at % size
    else:
        at = np.abs(at)
        at = np.where(at >= size, 2 * (size - 1) - at, at)
    return Table.of(size, at)
