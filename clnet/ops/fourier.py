"""The discrete Fourier transform along the last axis, of any length; ``clnet/fft.py`` names it.

Lengths of small factors are one kernel; longer ones are rows and columns of a matrix (Cooley and
Tukey), others a convolution with a chirp (Bluestein). Those are composed, so their gradients are.
"""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..kernels.fourier import longest_line, radices_of, transform_lines
from ..values.dtypes import complex64, complex128
from .arithmetic import mul, remainder
from .complex_parts import conj, polar, real
from .create import positions
from .join import cat
from .machinery.function import Function, Saved, apply
from .padding import pad
from .rearrange import flip
from .shape import contiguous, narrow, reshape, to_dtype, transpose

if TYPE_CHECKING:
    from ..tensor import Tensor


class Fourier(Function):
    """Transforms of dense lines ``(lines, n)``, unscaled, where one kernel does them.

    Attributes:
        n: the length.
        sign: of the exponent: -1 forward, 1 back.
        half: the input or output that is real: ``""``, ``"input"`` or ``"output"``; the other one
            then has ``n // 2 + 1`` elements.
    """

    n: int
    sign: int
    half: str = ""
    repeats = True
    takes_complex = True

    def infer(self, x: Array) -> tuple[Array, ...]:
        wide = x.dtype if x.dtype.is_complex else _complex_of(x)
        count = self.n // 2 + 1 if self.half == "input" else self.n
        dtype = wide.real if self.half == "output" else wide
        return (Array.abstract((x.shape[0], count), dtype, x.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        return transform_lines(target, outputs[0], inputs[0], n=self.n, sign=self.sign)

    def backward(
        self, saved: Saved, grads: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        """The transform with the other sign: that of the conjugate transpose."""
        (g,) = grads
        if not self.half:
            return (apply(Fourier(self.n, -self.sign), contiguous(g)),)
        if self.half == "input":
            g = mul(g, _counts(g, self.n, 0.5))
            return (apply(Fourier(self.n, -self.sign, "output"), contiguous(g)),)
        found = apply(Fourier(self.n, -self.sign, "input"), contiguous(g))
        return (mul(found, _counts(found, self.n, 2.0)),)


def _complex_of(x: Any) -> Any:
    return complex128 if x.dtype.name == "float64" else complex64


def _counts(like: Tensor, n: int, inner: float) -> Tensor:
    """1 for frequencies that stand once among all n, else ``inner``."""
    counts = like.new_full((n // 2 + 1,), inner, dtype=like.dtype.real)
    counts[0] = 1.0
    if n % 2 == 0:
        counts[n // 2] = 1.0
    return counts


def transform(x: Tensor, sign: int) -> Tensor:
    """``y[..., k]``, the sum of ``x[..., j] exp(sign 2 pi i j k / n)``, along the last axis.

    Args:
        x: ``(..., n)``, complex, n above 0.
        sign: -1 forward, 1 back.
    """
    n = x.shape[-1]
    lines = contiguous(reshape(x, (-1, n) if x.numel() else (0, n)))
    radices, longest = radices_of(n), _longest(x)
    if radices is None:
        y = _by_chirp(lines, sign)
    elif n <= longest:
        y = apply(Fourier(n, sign), lines)
    else:
        y = _by_rows(lines, _split(radices, longest), sign)
    return reshape(y, x.shape)


def of_real(x: Tensor) -> Tensor:
    """The first ``n // 2 + 1`` elements of the forward transform of real numbers."""
    n = x.shape[-1]
    if _at_once(x, n):
        lines = contiguous(reshape(x, (-1, n) if x.numel() else (0, n)))
        y = apply(Fourier(n, -1, "input"), lines)
        return reshape(y, (*x.shape[:-1], n // 2 + 1))
    return narrow(transform(to_dtype(x, _complex_of(x)), -1), -1, 0, n // 2 + 1)


def to_real(x: Tensor, n: int) -> Tensor:
    """The backward transform, unscaled, that is real: of the first ``n // 2 + 1`` elements."""
    half = n // 2 + 1
    if _at_once(x, n):
        lines = contiguous(reshape(x, (-1, half) if x.numel() else (0, half)))
        return reshape(apply(Fourier(n, 1, "output"), lines), (*x.shape[:-1], n))
    ends = to_dtype(real(narrow(x, -1, 0, 1)), x.dtype)
    mirrored = conj(flip(narrow(x, -1, 1, n - half), (-1,)))
    return real(transform(cat([ends, narrow(x, -1, 1, half - 1), mirrored], -1), 1))


def _longest(x: Tensor) -> int:
    return longest_line(x.device.target, 16 if x.dtype.compute == "float64" else 8)


def _at_once(x: Tensor, n: int) -> bool:
    return radices_of(n) is not None and n <= _longest(x)


def _split(radices: tuple[int, ...], longest: int) -> int:
    """A divisor of at most ``longest``, as large as the radices in their order make it."""
    size = 1
    for radix in radices:
        if size * radix <= longest:
            size *= radix
    return size


def _roots(like: Tensor, turns: Tensor, n: int, sign: int) -> Tensor:
    """``exp(sign 2 pi i turns / n)``, of whole turns."""
    angle = to_dtype(remainder(turns, n), like.dtype.real) * (sign * 2 * pi / n)
    return polar(angle.new_ones(angle.shape), angle)


def _by_rows(x: Tensor, columns: int, sign: int) -> Tensor:
    """Transforms over ``j = j1 * columns + j2``: down the columns, turned, then along the rows."""
    lines, n = x.shape
    rows = n // columns
    kind = type(x.detach())
    a = transform(transpose(reshape(x, (lines, rows, columns)), 1, 2), sign)  # [j2, k1]
    j = reshape(positions(kind, columns, x.device), (columns, 1))
    a = a * _roots(x, j * positions(kind, rows, x.device), n, sign)
    y = transform(transpose(a, 1, 2), sign)  # [k1, k2]
    return reshape(contiguous(transpose(y, 1, 2)), (lines, n))


def _by_chirp(x: Tensor, sign: int) -> Tensor:
    """``j k = (j^2 + k^2 - (k - j)^2) / 2``: a convolution, cyclic in a length of 2s."""
    n = x.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    j = positions(type(x.detach()), n, x.device)
    chirp = _roots(x, j * j, 2 * n, sign)
    back = conj(chirp)
    filter_ = cat([back, back.new_zeros(size - 2 * n + 1), flip(narrow(back, 0, 1, n - 1), (0,))])
    seen = transform(pad(x * chirp, (0, size - n)), -1)
    found = transform(seen * transform(reshape(filter_, (1, size)), -1), 1)
    return narrow(found, -1, 0, n) * (chirp / size)


__all__ = ["Fourier", "of_real", "to_real", "transform"]
